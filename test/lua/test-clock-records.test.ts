import { describe, expect, test } from '@jest/globals';
import {
  clockLapsesKey,
  idempotencyKey,
  runCounterIndexKey,
  runCountersKey,
  runIndexKey,
  tenantKey,
} from '../../src/redis/keyspace.js';
import { makePolicy } from '../support/admission-client.js';
import type { LedgerClient } from '../support/ledger-client.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const [MINUTE_MS, DAY_MS] = [60_000, 86_400_000];
const START_MS = Date.parse('2026-01-10T12:00:00.000Z');

async function onClock(): Promise<LedgerClient> {
  const ledger = await newLedger();
  await ledger.makeTenant({ clock_id: 'clk_1', clock_now: String(START_MS) });
  await ledger.makeBudget();
  return ledger;
}

const setClock = ({ redis, tag, tenant }: LedgerClient, ms: number): Promise<number> =>
  redis.hset(tenantKey(tag, tenant), 'clock_now', START_MS + ms);

describe('the outcomes of requests of a tenant with a test clock', () => {
  test.each(['commit', 'release'] as const)(
    'of a %s can be replayed as long as they are kept',
    async (end) => {
      const ledger = await onClock();
      const { id } = await ledger.hold();
      const key = 'once';
      await (end === 'commit' ? ledger.commit(id, 1, { key }) : ledger.release(id, { key }));
      const record = idempotencyKey[end](ledger.tag, ledger.tenant, id, key);
      const [outcomeMs, recordMs] = [
        await ledger.redis.pexpiretime(record),
        await ledger.redis.pexpiretime(ledger.reservationKeyOf(id)),
      ];
      expect(recordMs).toBeGreaterThanOrEqual(outcomeMs);
    },
  );

  test('leave the index when Redis has removed them, even if the clock does not move', async () => {
    const ledger = await onClock();
    const { redis, tag, tenant } = ledger;
    const index = clockLapsesKey(tag, tenant);
    const gone = ['a', 'b'].map((name) => idempotencyKey.reserve(tag, tenant, name));
    await redis.zadd(index, START_MS + DAY_MS, gone[0] as string, START_MS + DAY_MS, gone[1] as string);
    const { key } = await ledger.hold();
    expect(await redis.zrange(index, '0', '-1')).toEqual([idempotencyKey.reserve(tag, tenant, key)]);
  });

  test('leave no empty index behind', async () => {
    const ledger = await onClock();
    const { redis, tag, tenant } = ledger;
    const { key } = await ledger.hold({ ttlMs: 3 * DAY_MS });
    await ledger.hold();
    const last = await redis.pexpiretime(idempotencyKey.reserve(tag, tenant, key));
    expect(await redis.pexpiretime(clockLapsesKey(tag, tenant))).toBeGreaterThanOrEqual(last);
  });
});

describe('the runs of a tenant with a test clock', () => {
  const QUOTA = { action_kind: 'llm', max_calls: 2, window: 'per_run', per_run_counter_ttl_ms: MINUTE_MS };
  const inRun = (run: string): { facts: string } => ({ facts: `side_effect|${run}|||` });

  async function limited(): Promise<LedgerClient> {
    const ledger = await onClock();
    await makePolicy(ledger, ledger.scope(), { sets: { action_quotas: JSON.stringify([QUOTA]) } });
    return ledger;
  }

  test('are forgotten when they have lapsed by the clock', async () => {
    const ledger = await limited();
    const { redis, tag, tenant } = ledger;
    await ledger.hold(inRun('a'));
    await setClock(ledger, MINUTE_MS);
    await ledger.hold(inRun('b'));
    expect(await redis.zrange(runIndexKey(tag, tenant), '0', '-1')).toEqual(['b']);
    expect(await redis.zrange(runCounterIndexKey(tag, tenant), '0', '-1')).toEqual([
      `b|${ledger.scope()}|r|llm`,
    ]);
    expect(await redis.exists(runCountersKey(tag, tenant, 'a'))).toBe(0);
  });

  test('are kept as long as they count by the clock, and start anew in the same run', async () => {
    const ledger = await limited();
    const { redis, tag, tenant } = ledger;
    await ledger.hold(inRun('a'));
    await setClock(ledger, MINUTE_MS - 1);
    await ledger.hold(inRun('a'));
    await setClock(ledger, MINUTE_MS + 1);
    await ledger.hold(inRun('b'));
    expect((await ledger.reserve(inRun('a')))[0]).toBe('ACTION_QUOTA_EXCEEDED');
    await setClock(ledger, 3 * MINUTE_MS);
    await ledger.hold(inRun('a'));
    expect(await redis.zrange(runIndexKey(tag, tenant), '0', '-1')).toEqual(['a']);
    await ledger.hold(inRun('a'));
    expect((await ledger.reserve(inRun('a')))[0]).toBe('ACTION_QUOTA_EXCEEDED');
  });
});
