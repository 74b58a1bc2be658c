import { describe, expect, test } from '@jest/globals';
import { deliveryIdOf, deliveryPlaceOf, outgoing, partsOfRef } from '../../src/webhooks/dispatch/delivery.js';
import { DispatchPartition } from '../../src/webhooks/dispatch/dispatch-partition.js';
import { toEvent } from '../../src/events/index.js';

const SUBSCRIPTION = 'whsub_1fABCDEFGHIJKLMNOP';

describe("a delivery's id", () => {
  test.each([`1700000000000-0:${SUBSCRIPTION}`, `1700000000000-4711:${SUBSCRIPTION}:rpl_0aZ`])(
    'names %s and leads back to it',
    (ref) => {
      const id = deliveryIdOf({ partition: '1f', ref });
      expect(id).toMatch(/^dlv_[0-9A-Za-z_]+$/);
      expect(deliveryPlaceOf(id)).toEqual({ partition: '1f', ref });
    },
  );

  test.each(['', 'dlv_', 'dlv_1f', 'evt_18bcfe568001f000', 'dlv_18bcfe568001f000_1fABC'])(
    'that Holdfast never issued, such as %p, has no place',
    (id) => {
      expect(deliveryPlaceOf(id)).toBeUndefined();
    },
  );

  test('cannot be made of anything else', () => {
    expect(() => partsOfRef('1700000000000-0:acme')).toThrow('not a delivery');
  });
});

test("an event's body occupies only its own memory while its delivery waits", () => {
  const fields = new Map([
    ['ty', 'reservation.expired'],
    ['tn', 'acmé'],
  ]);
  const { body } = outgoing(toEvent('1f', '1700000000000-0', fields), fields);

  expect(body.buffer.byteLength).toBe(body.byteLength);
  expect(JSON.parse(body.toString('utf8'))).toMatchObject({ tenant_id: 'acmé' });
});

describe('a partition whose events are all queued', () => {
  const begun = (pending: number): number => {
    const partition = new DispatchPartition(0, 'token');
    partition.after = '>';
    // The oldest event that is not acknowledged is of the same millisecond as the last one that was read.
    const state = { lastRead: '1700000000000-7', oldestMs: 1_700_000_000_000, lag: 3, pending };
    partition.see({
      ...state,
      status: 'HELD',
      nowMs: 1_700_000_000_100,
      lease: 'renewed',
      more: false,
      events: [],
    });
    return partition.term;
  };

  test('goes on when further events of the same millisecond are not read yet', () => {
    expect(begun(0)).toBe(0);
  });

  test('begins anew when one of them waits for its acknowledgement again', () => {
    expect(begun(1)).toBe(1);
  });
});
