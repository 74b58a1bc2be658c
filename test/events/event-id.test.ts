import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { eventIdOf, eventPlaceOf } from '../../src/events/event.js';

test('an event id consists of time, partition and sequence, which can be read back', () => {
  expect(eventIdOf({ partition: '1f', entryId: '1763722222222-0' })).toBe(
    'evt_19aa6094ede1f000'.replace('19aa6094ede', (1763722222222).toString(16)),
  );
  const entries = fc.tuple(
    fc.integer({ min: 0, max: 2 ** 44 - 1 }),
    fc.integer({ min: 0, max: 255 }),
    fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  );
  fc.assert(
    fc.property(entries, ([ms, partition, sequence]) => {
      const place = { partition: partition.toString(16).padStart(2, '0'), entryId: `${ms}-${sequence}` };
      const id = eventIdOf(place);
      expect(id).toMatch(/^evt_[0-9a-f]{16,}$/);
      expect(eventPlaceOf(id)).toEqual(place);
    }),
  );
});

test('an id that was never issued has no place, and an event has only one id', () => {
  for (const id of [
    '',
    'evt_',
    'evt_19aa6094ede1f00',
    'evt_19AA6094EDE1F000',
    'evt_19aa6094ede1f0000',
    'evt_19aa6094ede1f000\n',
    'rsv_19aa6094ede1f000',
  ]) {
    expect(eventPlaceOf(id)).toBeUndefined();
  }
  expect(() => eventIdOf({ partition: '1f', entryId: 'none' })).toThrow('not an entry of the event log');
});
