import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { SchedulerRegistry } from '@nestjs/schedule';
import { createLogger } from '../../src/telemetry/logger.js';
import { deliveryIdOf, deliveryPlaceOf, partsOfRef } from '../../src/webhooks/dispatch/delivery-id.js';
import { PollLoop } from '../../src/webhooks/dispatch/poll-loop.js';

const SUBSCRIPTION = 'whsub_1fABCDEFGHIJKLMNOP';

afterEach(() => {
  jest.useRealTimers();
});

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
    'that Holdfast never issued, as %p, leads nowhere',
    (id) => {
      expect(deliveryPlaceOf(id)).toBeUndefined();
    },
  );

  test('is not made of anything else', () => {
    expect(() => partsOfRef('1700000000000-0:acme')).toThrow('not a delivery');
  });
});

test('a look for events that stands still is disowned and started anew', async () => {
  jest.useFakeTimers();
  const ticks: (() => boolean)[] = [];
  let restarts = 0;
  const loop = new PollLoop({
    tick: (isCurrent) => {
      ticks.push(isCurrent);
      return new Promise(() => undefined);
    },
    afterErrorMs: 10,
    scheduler: new SchedulerRegistry(),
    logger: createLogger('silent'),
    restarted: () => (restarts += 1),
  });
  loop.start();
  await jest.advanceTimersByTimeAsync(5000);
  expect([ticks.length, restarts, ticks[0]?.()]).toEqual([1, 0, true]);
  await jest.advanceTimersByTimeAsync(10_000);
  expect([ticks.length, restarts, ticks[0]?.(), ticks[1]?.()]).toEqual([2, 1, false, true]);
});
