import { describe, expect, test } from '@jest/globals';
import { operatorIndexKey, operatorKey, operatorSecretKey } from '../../src/redis/keyspace.js';
import type { Reply } from '../../src/redis/scripts.js';
import { clockAt } from '../support/fixed-clock.js';
import { type LedgerClient, randomText, TRACE } from '../support/ledger-client.js';
import { snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const ORIGIN = ['admin', 'operator:root', 'req_1', TRACE] as const;
const CHANNEL = 'test:revoked';
const PAST = '1700000000000';

interface Named {
  readonly name: string;
  readonly hash: string;
}

interface Ends {
  readonly expires?: number;
  readonly next?: number;
  readonly former: number;
}

const TENANTS = 'acme team-*';

const someone = (): Named => ({ name: `alice-${randomText(6).toLowerCase()}`, hash: randomText(43) });

const create = (ledger: LedgerClient, { name, hash }: Named, expiresAt = ''): Promise<Reply> =>
  ledger.scripts.run(
    'create_operator',
    [operatorKey(ledger.tag, name), operatorSecretKey(ledger.tag, hash), operatorIndexKey(ledger.tag)],
    [name, 'viewer', hash, 'opr_abcd', expiresAt, TENANTS, ...ORIGIN],
  );

const rotate = (ledger: LedgerClient, { name }: Named, hash: string, overlapMs = 60_000, expiresAt = '') =>
  ledger.scripts.run(
    'rotate_operator',
    [operatorKey(ledger.tag, name), operatorSecretKey(ledger.tag, hash)],
    [hash, 'opr_efgh', overlapMs, expiresAt, CHANNEL, ...ORIGIN],
  );

const revoke = (ledger: LedgerClient, { name }: Named): Promise<Reply> =>
  ledger.scripts.run('revoke_operator', [operatorKey(ledger.tag, name)], ['', CHANNEL, ...ORIGIN]);

const authenticate = (ledger: LedgerClient, hash: string): Promise<Reply> =>
  ledger.scripts.run('authenticate_operator', [operatorSecretKey(ledger.tag, hash)], [hash]);

describe('an operation on an operator is refused, and changes no byte', () => {
  test.each<[string, (ledger: LedgerClient, operator: Named) => Promise<Reply>]>([
    [
      'NAME_TAKEN',
      async (ledger, operator) => {
        await create(ledger, operator);
        return create(ledger, { ...operator, hash: randomText(43) }, PAST);
      },
    ],
    ['EXPIRES_IN_PAST', (ledger, operator) => create(ledger, operator, PAST)],
    ['NOT_FOUND', (ledger, operator) => rotate(ledger, operator, randomText(43), 0, PAST)],
    ['NOT_FOUND', (ledger, operator) => revoke(ledger, operator)],
    [
      'ALREADY_REVOKED',
      async (ledger, operator) => {
        await create(ledger, operator);
        await revoke(ledger, operator);
        return rotate(ledger, operator, randomText(43), 0, PAST);
      },
    ],
    [
      'ALREADY_REVOKED',
      async (ledger, operator) => {
        await create(ledger, operator);
        await revoke(ledger, operator);
        return revoke(ledger, operator);
      },
    ],
    [
      'EXPIRES_IN_PAST',
      async (ledger, operator) => {
        await create(ledger, operator);
        return rotate(ledger, operator, randomText(43), 0, PAST);
      },
    ],
  ])('%s', async (word, act) => {
    const ledger = await newLedger();
    const steps: string[] = [];
    let before = await snapshot(ledger);
    // Each act makes its world first; what counts is the last step.
    const watched = new Proxy(ledger, {
      get: (target, property) => {
        if (property !== 'scripts') {
          return Reflect.get(target, property) as unknown;
        }
        return {
          run: async (...call: Parameters<LedgerClient['scripts']['run']>) => {
            before = await snapshot(target);
            steps.push(call[0]);
            return target.scripts.run(...call);
          },
        };
      },
    });
    expect((await act(watched, someone())).join(' ')).toBe(word);
    expect(steps.length).toBeGreaterThan(0);
    expect(await snapshot(ledger)).toEqual(before);
  });
});

describe('a key authenticates', () => {
  test('its operator, for at most a day and never past its end', async () => {
    const ledger = await newLedger();
    const [lasting, ending] = [someone(), someone()];
    expect(await authenticate(ledger, lasting.hash)).toEqual(['UNKNOWN']);
    await create(ledger, lasting);
    expect(await authenticate(ledger, lasting.hash)).toEqual([
      'OK',
      lasting.name,
      'viewer',
      TENANTS,
      '86400000',
    ]);
    const [seconds] = (await ledger.redis.time()) as unknown as [string];
    await create(ledger, ending, String((Number(seconds) + 60) * 1000));
    const [, , , , leftMs] = await authenticate(ledger, ending.hash);
    expect(Number(leftMs)).toBeLessThanOrEqual(60_000);
    await ledger.redis.hset(operatorKey(ledger.tag, ending.name), 'expires_at', PAST);
    expect(await authenticate(ledger, ending.hash)).toEqual(['EXPIRED']);
  });

  test('for the whole deployment if a version before 0.8 has made it', async () => {
    const ledger = await newLedger();
    const operator = someone();
    await create(ledger, operator);
    await ledger.redis.hdel(operatorKey(ledger.tag, operator.name), 'tenants');
    expect(await authenticate(ledger, operator.hash)).toMatchObject({ 3: '*' });
  });

  test('until the overlap after its rotation ends, and the rotation ends the one before that', async () => {
    const ledger = await newLedger();
    const operator = someone();
    const [second, third] = [randomText(43), randomText(43)];
    await create(ledger, operator);
    await rotate(ledger, operator, second);
    expect((await authenticate(ledger, operator.hash))[0]).toBe('OK');
    expect((await authenticate(ledger, second))[0]).toBe('OK');
    await rotate(ledger, operator, third);
    expect(await authenticate(ledger, operator.hash)).toEqual(['UNKNOWN']);
    expect((await authenticate(ledger, second))[0]).toBe('OK');
    await ledger.redis.hset(operatorKey(ledger.tag, operator.name), 'previous_until', PAST);
    expect(await authenticate(ledger, second)).toEqual(['EXPIRED']);
    await revoke(ledger, operator);
    expect(await authenticate(ledger, third)).toEqual(['REVOKED']);
  });

  const [AT, MINUTE_MS] = [Date.UTC(2100, 0, 1), 60_000];
  // Each key is rotated at AT, with an overlap of a minute. The former one ends at `former`, the new one at `next`.
  test.each([
    ['the overlap', { former: AT + MINUTE_MS }],
    ['its own end before that of the overlap', { expires: AT + 1000, former: AT + 1000 }],
    ['the end of the new key', { next: AT + 1000, former: AT + 1000 }],
    ['the first of the three ends', { expires: AT + 2000, next: AT + 1000, former: AT + 1000 }],
  ])('to the last millisecond before %s', async (_, { expires, next, former }: Ends) => {
    const [ledger, operator, second] = [await newLedger(), someone(), randomText(43)];
    await create(clockAt(ledger, AT - MINUTE_MS), operator, expires?.toString());
    await rotate(clockAt(ledger, AT), operator, second, MINUTE_MS, next?.toString());
    for (const [hash, ends] of [
      [operator.hash, former],
      [second, next ?? expires ?? Infinity],
    ] as const) {
      for (const now of [AT, ends - 1, ends].filter((ms) => ms >= AT && ms < Infinity)) {
        const leftMs = Math.min(ends - now, 86_400_000);
        const word = leftMs > 0 ? ['OK', operator.name, 'viewer', TENANTS, String(leftMs)] : ['EXPIRED'];
        expect(await authenticate(clockAt(ledger, now), hash)).toEqual(word);
      }
    }
  });

  test.each([
    ['in the millisecond of the rotation', AT],
    ['before the rotation', AT - 1000],
  ])('nobody once its end is %s, which revives nothing', async (_, expires) => {
    const [ledger, operator, second] = [await newLedger(), someone(), randomText(43)];
    await create(clockAt(ledger, AT - MINUTE_MS), operator, String(expires));
    expect(await rotate(clockAt(ledger, AT), operator, second, MINUTE_MS)).toEqual(['EXPIRED']);
    expect(await authenticate(clockAt(ledger, AT), operator.hash)).toEqual(['EXPIRED']);
    expect(await authenticate(clockAt(ledger, AT), second)).toEqual(['UNKNOWN']);
  });

  test('nobody if the record is damaged or gone', async () => {
    const ledger = await newLedger();
    const operator = someone();
    const record = operatorKey(ledger.tag, operator.name);
    await create(ledger, operator);
    for (const [field, value] of [
      ['status', 'ODD'],
      ['expires_at', 'soon'],
      ['previous_until', 'later'],
    ] as const) {
      const kept = await ledger.redis.hgetall(record);
      await ledger.redis.hset(record, field, value);
      await expect(authenticate(ledger, operator.hash)).rejects.toThrow('corrupt operator record');
      await ledger.redis.del(record);
      await ledger.redis.hset(record, kept);
    }
    await ledger.redis.del(record);
    await expect(authenticate(ledger, operator.hash)).rejects.toThrow('has a key but no record');
  });
});
