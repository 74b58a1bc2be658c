import { describe, expect, test } from '@jest/globals';
import type { FastifyReply } from 'fastify';
import type { Refusal } from '../../src/ledger/index.js';
import { MAX_SOURCES, RateLimit, sourceOf } from '../../src/auth/rate-limits.js';

/** Records the headers of a response; a limit uses nothing else. */
class Headers {
  readonly values: Record<string, string> = {};

  header(name: string, value: string): this {
    this.values[name] = value;
    return this;
  }
}

/** How far Redis' clock is ahead of the monotonic one of the windows. */
const AHEAD_MS = 5_000_000;

describe('one limit', () => {
  function limitOf(perMinute: number): {
    limit: RateLimit;
    clock: { ms: number };
    ask: (source: string) => Record<string, string>;
  } {
    const clock = { ms: 1_000_000 };
    const limit = new RateLimit(
      perMinute,
      'requests',
      { nowMs: () => clock.ms, redisMs: () => clock.ms + AHEAD_MS },
      () => undefined,
    );
    const ask = (source: string): Record<string, string> => {
      const reply = new Headers();
      try {
        limit.admit(source, reply as unknown as FastifyReply);
      } catch (error) {
        // The filter of errors makes the header of it.
        reply.header('Retry-After', String((error as Refusal).retryAfterS));
        expect(reply.values['Retry-After']).toMatch(/^[1-9]\d*$/);
      }
      return reply.values;
    };
    return { limit, clock, ask };
  }

  test('counts each source in its own window, which starts with its first request', () => {
    const { clock, ask } = limitOf(2);
    expect(ask('a')['X-RateLimit-Remaining']).toBe('1');
    clock.ms += 30_000;
    expect(ask('b')['X-RateLimit-Remaining']).toBe('1');
    expect(ask('a')['X-RateLimit-Remaining']).toBe('0');
    expect(ask('a')['Retry-After']).toBe('30');
    clock.ms += 30_000;
    expect(ask('a')).toMatchObject({ 'X-RateLimit-Remaining': '1' });
    expect(ask('b')['X-RateLimit-Remaining']).toBe('0');
    expect(ask('b')['Retry-After']).toBe('30');
  });

  test('a refused request does not extend the window, and the wait is never less than a second', () => {
    const { clock, ask } = limitOf(1);
    ask('a');
    for (let second = 0; second < 59; second += 1) {
      clock.ms += 1000;
      expect(ask('a')['Retry-After']).toBe(String(59 - second));
    }
    clock.ms += 999.9;
    expect(ask('a')['Retry-After']).toBe('1');
    clock.ms += 0.1;
    expect(ask('a')['Retry-After']).toBeUndefined();
  });

  test('the reset is the same Unix second during the whole window', () => {
    const { clock, ask } = limitOf(2);
    const resets = [0, 1, 2].map(() => {
      clock.ms += 10_000;
      return ask('a')['X-RateLimit-Reset'];
    });
    expect(new Set(resets).size).toBe(1);
    expect(resets[0]).toBe(String((1_010_000 + AHEAD_MS + 60_000) / 1000));
  });

  test('100,000 sources take bounded memory, and one that keeps sending stays limited among them', () => {
    const { limit, ask } = limitOf(1);
    ask('noisy');
    for (let index = 0; index < 100_000; index += 1) {
      ask(`source-${index}`);
      if (index % 1000 === 0) {
        expect(ask('noisy')['Retry-After']).toBeDefined();
      }
    }
    expect(limit.size).toBe(MAX_SOURCES);
  });
});

test.each([
  [17, 17, 0],
  [18, 17, 'this counts as 18 requests'],
  [16, 17, 1],
])(
  'a request that counts as %i is admitted by a limit of %i or refused as a whole',
  (all, perMinute, left) => {
    const limit = new RateLimit(perMinute, 'requests', { nowMs: () => 0, redisMs: () => 0 }, () => undefined);
    const reply = new Headers();
    limit.admit('a', reply as unknown as FastifyReply);
    const rest = (): void => limit.admitRest('a', reply as unknown as FastifyReply, all);
    if (typeof left === 'string') {
      expect(rest).toThrow(left);
    } else {
      rest();
      expect(reply.values['X-RateLimit-Remaining']).toBe(String(left));
    }
  },
);

test.each([
  ['10.1.2.3', '10.1.2.3'],
  ['::ffff:10.1.2.3', '10.1.2.3'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:0DB8:0001:0002::9', '2001:db8:1:2::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['2001:db8::3:4:5:6:7', '2001:db8:0:3::/64'],
  ['::1', '0:0:0:0::/64'],
  ['64:ff9b::10.1.2.3', '64:ff9b:0:0::/64'],
  ['1:2:3:4:5:6:7::', '1:2:3:4::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  [undefined, 'unknown'],
])('the address %s counts as %s', (address, source) => {
  expect(sourceOf(address)).toBe(source);
});
