import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { SchedulerRegistry } from '@nestjs/schedule';
import { createLogger } from '../../src/logging/index.js';
import { deliveryIdOf, deliveryPlaceOf, partsOfRef } from '../../src/webhooks/dispatch/index.js';
import { PollLoop } from '../../src/webhooks/dispatch/poll-loop.js';
import { Slots } from '../../src/webhooks/dispatch/slots.js';

const SUBSCRIPTION = 'whsub_1fABCDEFGHIJKLMNOP';

afterEach(() => {
  jest.useRealTimers();
});

describe("a delivery's id", () => {
  test.each([`1700000000000-0:${SUBSCRIPTION}`, `1700000000000-4711:${SUBSCRIPTION}:rpl_0aZ`])('names %s and leads back to it', (ref) => {
    const id = deliveryIdOf({ partition: '1f', ref });
    expect(id).toMatch(/^dlv_[0-9A-Za-z_]+$/);
    expect(deliveryPlaceOf(id)).toEqual({ partition: '1f', ref });
  });

  test.each(['', 'dlv_', 'dlv_1f', 'evt_18bcfe568001f000', 'dlv_18bcfe568001f000_1fABC'])('that Holdfast never issued, as %p, leads nowhere', (id) => {
    expect(deliveryPlaceOf(id)).toBeUndefined();
  });

  test('is not made of anything else', () => {
    expect(() => partsOfRef('1700000000000-0:acme')).toThrow('not a delivery');
  });
});

describe('slots', () => {
  const wish = (subscriptionId: string, slow = false) => ({ subscriptionId, slow });

  test('of one subscription are bounded, and those of the others stay free', () => {
    const slots = new Slots({ total: 10, perSubscription: 2 });
    expect([slots.tryTake(wish('a')), slots.tryTake(wish('a')), slots.tryTake(wish('a')), slots.tryTake(wish('b'))]).toEqual([true, true, false, true]);
    slots.giveBack(wish('a'));
    expect(slots.tryTake(wish('a'))).toBe(true);
  });

  test('leave half of all to those that were not slow the last time', async () => {
    const slots = new Slots({ total: 4, perSubscription: 4 });
    expect(['a', 'b', 'c'].map((id) => slots.tryTake(wish(id, true)))).toEqual([true, true, false]);
    const waiting = slots.take(wish('c', true));
    expect(['d', 'e', 'f'].map((id) => slots.tryTake(wish(id)))).toEqual([true, true, false]);
    slots.giveBack(wish('d'));
    // A place that is free, but not for a slow one.
    expect(slots.inUse).toBe(3);
    slots.giveBack(wish('a', true));
    expect(await waiting).toBe(true);
    expect(slots.inUse).toBe(3);
  });

  test('are given to nobody any more once they are closed', async () => {
    const slots = new Slots({ total: 1, perSubscription: 1 });
    expect(slots.tryTake(wish('a'))).toBe(true);
    const waiting = slots.take(wish('b'));
    expect(slots.longestWaitMs(performance.now() + 50)).toBeGreaterThanOrEqual(50);
    slots.close();
    expect([await waiting, await slots.take(wish('c')), slots.tryTake(wish('d'))]).toEqual([false, false, false]);
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
