import { describe, expect, test } from '@jest/globals';
import {
  actionCounterIndexKey,
  actionCountersKey,
  auditLogKey,
  eventLogKey,
  runCounterIndexKey,
  runCountersKey,
  runIndexKey,
} from '../../src/redis/keyspace.js';
import type { Reply } from '../../src/redis/scripts.js';
import { shows } from '../compatibility/shows.js';
import { decide, makePolicy, updatePolicy } from '../support/admission-client.js';
import { useClockedLedgers } from '../support/clocked-ledger.js';
import { clockAt } from '../support/fixed-clock.js';
import { type LedgerClient, TRACE } from '../support/ledger-client.js';
import { assertInvariants, readLedger, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const clocked = useClockedLedgers();
const [MINUTE_MS, HOUR_MS, DAY_MS] = [60_000, 3_600_000, 86_400_000];

type Quota = Readonly<Record<string, unknown>>;
const kind = (window: string, maxCalls: number, more: Quota = {}): Quota => ({
  action_kind: 'llm',
  max_calls: maxCalls,
  window,
  ...more,
});
const risk = (window: string, maxCalls: number, more: Quota = {}): Quota => ({
  risk_class: 'side_effect',
  max_calls: maxCalls,
  window,
  ...more,
});
const sets = (quotas: readonly Quota[], risks: readonly Quota[] = []): Record<string, string> => ({
  ...(quotas.length === 0 ? {} : { action_quotas: JSON.stringify(quotas) }),
  ...(risks.length === 0 ? {} : { risk_class_quotas: JSON.stringify(risks) }),
});

interface Limited {
  /** With its clock at the start of a UTC day. */
  readonly ledger: LedgerClient;
  readonly day: number;
  readonly at: (ms: number) => LedgerClient;
  readonly policy: string;
}

async function limited(
  rules: Record<string, string>,
  pattern?: string,
  make = newLedger,
): Promise<Limited & { readonly made: LedgerClient }> {
  const made = await make();
  await made.makeTenant();
  await made.makeBudget({ allocated: 1000 });
  const policy = await makePolicy(made, pattern ?? made.scope(), { sets: rules });
  const day = Math.ceil((await made.serverTime()) / DAY_MS);
  const at = (ms: number): LedgerClient => clockAt(made, day * DAY_MS + ms);
  return { ledger: at(0), day, at, policy, made };
}

const inRun = (run: string): { facts: string } => ({ facts: `side_effect|${run}|||` });
const refusalOf = async (ledger: LedgerClient, options = {}): Promise<string> =>
  (await ledger.reserve(options))[0] as string;

/**
 * Everything except events and the policy: Redis may change the encoding of a hash with long values when it
 * is read.
 */
async function stateOf(ledger: LedgerClient): Promise<Map<string, string>> {
  const all = await snapshot(ledger, 'events');
  return new Map([...all].filter(([key]) => !key.startsWith(`${ledger.tag}p:`)));
}

describe('a quota', () => {
  test.each([
    ['per_minute_tumbling', MINUTE_MS, 'T00:00'],
    ['per_hour_tumbling', HOUR_MS, 'T00'],
    ['per_day_tumbling', DAY_MS, ''],
    ['per_tenant_per_day', DAY_MS, ''],
  ])('%s refuses what exceeds it until the next UTC window, and changes nothing', async (window, ms, end) => {
    shows('quota windows', 'quota atomicity');
    const { ledger, at, day, policy } = await limited(sets([kind(window, 2)]));
    await ledger.hold();
    await at(ms / 2).hold();
    const before = await stateOf(ledger);
    const key = new Date(day * DAY_MS).toISOString().slice(0, 10) + end;
    const refusal = ['ACTION_QUOTA_EXCEEDED', ledger.scope(), policy, window, key, '2', '2', ''];
    expect(await at(ms - 1).reserve()).toEqual(refusal);
    expect(await stateOf(ledger)).toEqual(before);
    await at(ms).hold();
    await assertInvariants(ledger);
  });

  test('counts neither replays, nor refusals, nor dry runs, nor decisions', async () => {
    shows('quota atomicity');
    const { ledger } = await limited(sets([kind('per_day_tumbling', 2)]));
    await ledger.hold({ key: 'first' });
    expect((await ledger.reserve({ key: 'first' })).slice(0, 2)).toEqual(['ALLOW', 'replay']);
    expect(await refusalOf(ledger, { amount: 1001 })).toBe('BUDGET_EXCEEDED');
    expect(await refusalOf(ledger, { dryRun: true })).toBe('ALLOW_DRY_RUN');
    expect((await decide(ledger))[0]).toBe('ALLOW');
    await ledger.hold();
    expect(await refusalOf(ledger)).toBe('ACTION_QUOTA_EXCEEDED');
    const detail = ['DENY', 'fresh', 'ACTION_QUOTA_EXCEEDED', ledger.scope(), ''];
    expect((await decide(ledger)).slice(0, 5)).toEqual(detail);
    expect((await ledger.reserve({ key: 'd', dryRun: true })).slice(0, 5)).toEqual(detail);
    expect((await ledger.reserve({ key: 'd', dryRun: true }))[1]).toBe('replay');
  });

  test('counts at the deepest scope that its policy covers, and per_tenant_per_day at the tenant', async () => {
    shows('quota scope');
    const { ledger, at } = await limited({});
    const below = `${ledger.scope()}/*`;
    await makePolicy(ledger, below, { priority: 1, sets: sets([kind('per_hour_tumbling', 1)]) });
    await ledger.hold({ subject: { agent: 'a' } });
    await ledger.hold({ subject: { agent: 'b' } });
    expect(await refusalOf(ledger, { subject: { agent: 'a' } })).toBe('ACTION_QUOTA_EXCEEDED');
    await makePolicy(ledger, below, { priority: 2, sets: sets([kind('per_tenant_per_day', 1)]) });
    await ledger.hold({ subject: { agent: 'c' } });
    expect((await ledger.reserve({ subject: { agent: 'd' } })).slice(0, 2)).toEqual([
      'ACTION_QUOTA_EXCEEDED',
      ledger.scope(),
    ]);
    await at(DAY_MS).hold({ subject: { agent: 'd' } });
  });

  test('of a risk class counts all its kinds, comes first, and the quota of the kind must also allow the call', async () => {
    shows('quota scope', 'evaluation order');
    const { ledger, policy } = await limited(
      sets([kind('per_hour_tumbling', 2)], [risk('per_hour_tumbling', 3)]),
    );
    await ledger.hold();
    await ledger.hold();
    expect((await ledger.reserve()).slice(3, 8)).toEqual([
      'per_hour_tumbling',
      expect.any(String),
      '2',
      '2',
      '',
    ]);
    await ledger.hold({ fields: { ak: 'other' } });
    expect(await ledger.reserve({ fields: { ak: 'another' } })).toEqual([
      'ACTION_QUOTA_EXCEEDED',
      ledger.scope(),
      policy,
      'per_hour_tumbling',
      expect.any(String),
      '3',
      '3',
      'side_effect',
    ]);
    expect((await ledger.reserve())[7]).toBe('side_effect');
    await ledger.hold({ fields: { ak: 'other' }, facts: 'high_risk||||' });
  });

  test('names the one with the least left of several', async () => {
    const { ledger } = await limited(sets([kind('per_day_tumbling', 2), kind('per_hour_tumbling', 1)]));
    await ledger.hold();
    expect((await ledger.reserve())[3]).toBe('per_hour_tumbling');
  });

  test('continues counting when its limit changes', async () => {
    shows('quota changes');
    const { ledger, policy } = await limited(sets([kind('per_day_tumbling', 1)]));
    await ledger.hold();
    await updatePolicy(ledger, policy, sets([kind('per_day_tumbling', 2)]));
    await ledger.hold();
    expect(await refusalOf(ledger)).toBe('ACTION_QUOTA_EXCEEDED');
    await updatePolicy(ledger, policy, sets([]));
    await updatePolicy(ledger, policy, { action_quotas: '' });
    await ledger.hold();
  });

  test('continues from a counter that something else has changed', async () => {
    const { ledger, day } = await limited(sets([kind('per_day_tumbling', 3)]));
    await ledger.hold();
    const key = actionCountersKey(ledger.tag, ledger.tenant, day);
    const field = `${ledger.scope()}|d|llm`;
    const text = (await ledger.redis.hget(key, field)) as string;
    await ledger.hold();
    await ledger.redis.hset(key, field, text);
    await ledger.hold();
    await ledger.hold();
    expect(await refusalOf(ledger)).toBe('ACTION_QUOTA_EXCEEDED');
    await ledger.redis.del(key);
    await ledger.hold();
    expect((await ledger.redis.hget(key, field))?.split('|')[1]).toBe('1');
  });

  test('that stays in memory between runs ends with its window, and includes changes by others', async () => {
    const {
      ledger,
      made: real,
      day,
    } = await limited(
      sets([kind('per_minute_tumbling', 2), kind('per_day_tumbling', 5)]),
      undefined,
      clocked.make,
    );
    const { redis, tag, tenant } = ledger;
    const key = actionCountersKey(tag, tenant, day);
    const field = `${ledger.scope()}|d|llm`;
    const used = async (): Promise<string | undefined> => (await redis.hget(key, field))?.split('|')[1];
    await clocked.stand(day * DAY_MS);
    await real.hold();
    const once = (await redis.hget(key, field)) as string;
    await real.hold();
    expect((await real.reserve()).slice(3, 6)).toEqual(['per_minute_tumbling', expect.any(String), '2']);
    await clocked.stand(day * DAY_MS + MINUTE_MS);
    await real.hold();
    expect(await used()).toBe('3');
    await redis.hset(key, field, once);
    await real.hold();
    expect(await used()).toBe('2');
    await redis.del(key);
    await real.hold();
    expect([await used(), await redis.hlen(key)]).toEqual(['1', 2]);
    await redis.hset(key, field, once.replace('|1|', '|5|'));
    expect((await real.reserve()).slice(3, 6)).toEqual(['per_day_tumbling', expect.any(String), '5']);
  });

  test('that was read before it first counted is listed, whatever has counted meanwhile', async () => {
    const {
      ledger,
      made: real,
      day,
    } = await limited(
      sets([kind('per_day_tumbling', 5), kind('per_day_tumbling', 5, { action_kind: 'other' })]),
      undefined,
      clocked.make,
    );
    const { redis, tag, tenant } = ledger;
    await clocked.stand(day * DAY_MS);
    expect(await refusalOf(real, { dryRun: true })).toBe('ALLOW_DRY_RUN');
    await real.hold({ fields: { ak: 'other' } });
    await real.hold();
    expect(await redis.zrange(actionCounterIndexKey(tag, tenant, day), '0', '-1')).toEqual([
      `${ledger.scope()}|d|llm`,
      `${ledger.scope()}|d|other`,
    ]);
  });

  test('leaves no counter without a time to live', async () => {
    shows('quota counter life');
    const { ledger, day } = await limited(sets([kind('per_minute_tumbling', 9), kind('per_run', 9)]));
    await ledger.hold(inRun('r'));
    const { redis, tag, tenant } = ledger;
    for (const [key, mostMs] of [
      [actionCountersKey(tag, tenant, day), 90_000_000],
      [actionCounterIndexKey(tag, tenant, day), 90_000_000],
      [runCountersKey(tag, tenant, 'r'), DAY_MS],
    ] as const) {
      const left = await redis.pttl(key);
      expect([key, left > 0 && left <= mostMs]).toEqual([key, true]);
    }
    // Move the counter close to its end.
    await redis.pexpire(runCountersKey(tag, tenant, 'r'), 10_000);
    await ledger.hold(inRun('r'));
    expect(await redis.pttl(runCountersKey(tag, tenant, 'r'))).toBeGreaterThan(10_000);
  });

  test('with an allowlist covers only what it names', async () => {
    shows('policy keys');
    const { ledger } = await limited(
      sets([kind('per_day_tumbling', 1, { host_allowlist: ['API.example.com'] })]),
    );
    const to = (host: string): { facts: string } => ({ facts: `side_effect||${host}||` });
    await ledger.hold(to('api.example.com'));
    expect(await refusalOf(ledger, to('Api.Example.com'))).toBe('ACTION_QUOTA_EXCEEDED');
    await ledger.hold(to(''));
    await ledger.hold(to('example.com'));
  });

  test('is checked before the budget', async () => {
    shows('evaluation order');
    const { ledger } = await limited(sets([kind('per_day_tumbling', 1)]));
    await ledger.hold();
    expect(await refusalOf(ledger, { amount: 10_000 })).toBe('ACTION_QUOTA_EXCEEDED');
  });

  test('applies to the calls of one run, and a refused one leaves no trace', async () => {
    shows('quota atomicity');
    const { ledger, day } = await limited(
      sets([kind('per_tenant_per_day', 3)], [risk('per_tenant_per_day', 100)]),
    );
    const real = ledger.over(ledger.redis);
    const replies = await Promise.all(
      Array.from({ length: 8 }, (_, index) => real.reserve({ amount: index === 1 ? 5000 : 10 })),
    );
    const words = replies.map(([word]) => word);
    expect(words.filter((word) => word === 'ALLOW')).toHaveLength(3);
    expect(words[1]).toBe('BUDGET_EXCEEDED');
    expect(words.filter((word) => word === 'ACTION_QUOTA_EXCEEDED')).toHaveLength(4);
    const today = await ledger.redis.hgetall(actionCountersKey(ledger.tag, ledger.tenant, day - 1));
    expect(Object.values(today).map((text) => text.split('|')[1])).toEqual(['3', '3']);
    await assertInvariants(ledger);
  });

  test('counts several kinds in one run on their shared counter, once each', async () => {
    shows('quota atomicity');
    const { ledger, day } = await limited(
      sets([kind('per_tenant_per_day', 4)], [risk('per_tenant_per_day', 6)]),
    );
    const real = ledger.over(ledger.redis);
    const replies = await Promise.all(
      Array.from({ length: 12 }, (_, index) => real.reserve({ fields: { ak: index % 2 ? 'llm' : 'other' } })),
    );
    expect(replies.filter(([word]) => word === 'ALLOW')).toHaveLength(6);
    const today = await ledger.redis.hgetall(actionCountersKey(ledger.tag, ledger.tenant, day - 1));
    const counts = Object.entries(today).map(([field, text]) => [field.split('|')[2], text.split('|')[1]]);
    expect(new Map(counts as [string, string][])).toEqual(
      new Map([
        ['llm', '3'],
        ['__risk__:side_effect', '6'],
      ]),
    );
  });

  test('counts past 999 and up to the highest possible limit', async () => {
    const { ledger, day } = await limited(sets([kind('per_day_tumbling', 100_000)]));
    await ledger.hold();
    const key = actionCountersKey(ledger.tag, ledger.tenant, day);
    const field = `${ledger.scope()}|d|llm`;
    const used = async (): Promise<string | undefined> =>
      (await ledger.redis.hget(key, field))?.split('|')[1];
    const setUsed = async (count: number): Promise<void> => {
      const parts = ((await ledger.redis.hget(key, field)) as string).split('|');
      await ledger.redis.hset(key, field, [parts[0], count, ...parts.slice(2)].join('|'));
    };
    for (const [from, to] of [
      [998, '999'],
      [999, '1000'],
      [1008, '1009'],
      [99_999, '100000'],
    ] as const) {
      await setUsed(from);
      await ledger.hold();
      expect(await used()).toBe(to);
    }
    expect(await refusalOf(ledger)).toBe('ACTION_QUOTA_EXCEEDED');
  });

  test('of two rules for one counter is counted once, under the lower limit', async () => {
    const { ledger, day } = await limited(
      sets([kind('per_day_tumbling', 3), kind('per_day_tumbling', 2, { threshold_pct: 0.5 })]),
    );
    await ledger.hold();
    await ledger.hold();
    expect((await ledger.reserve()).slice(5, 7)).toEqual(['2', '2']);
    const [text] = await ledger.redis.hvals(actionCountersKey(ledger.tag, ledger.tenant, day));
    expect(text?.split('|').slice(3, 4)).toEqual(['2']);
    const { events } = await readLedger(ledger);
    expect(events.filter(({ fields }) => fields.ty === 'quota.threshold_approaching')).toHaveLength(1);
  });
});

test('a kind that is not declared is refused before its tenant is denied anything, and a replay is not', async () => {
  shows('custom kinds');
  const { ledger } = await limited({ allowed_action_kinds: '["other"]' });
  await ledger.hold({ key: 'k', fields: { ak: 'other' } });
  const before = await snapshot(ledger);
  expect(await ledger.reserve({ facts: '' })).toEqual(['UNDECLARED_KIND']);
  expect(await decide(ledger, { facts: '' })).toEqual(['UNDECLARED_KIND']);
  expect(await snapshot(ledger)).toEqual(before);
  const again = await ledger.reserve({ key: 'k', fields: { ak: 'other' }, facts: '' });
  expect(again.slice(0, 2)).toEqual(['ALLOW', 'replay']);
});

describe('a quota by run', () => {
  test('needs a run, and counts each run separately', async () => {
    shows('per run counters');
    const { ledger, policy } = await limited(sets([kind('per_run', 1)]));
    const before = await stateOf(ledger);
    expect(await ledger.reserve()).toEqual(['MISSING_RUN_ID']);
    expect(await decide(ledger)).toEqual(['MISSING_RUN_ID']);
    expect(await stateOf(ledger)).toEqual(before);
    await ledger.hold(inRun('a%20b'));
    await ledger.hold(inRun('c'));
    expect(await ledger.reserve(inRun('a%20b'))).toEqual([
      'ACTION_QUOTA_EXCEEDED',
      ledger.scope(),
      policy,
      'per_run',
      'a%20b',
      '1',
      '1',
      '',
    ]);
    expect(await ledger.redis.zrange(runIndexKey(ledger.tag, ledger.tenant), '0', '-1')).toEqual([
      'a%20b',
      'c',
    ]);
  });

  test('is returned by a release and an expiry, and kept by a commit', async () => {
    shows('per run counters');
    const { ledger, at } = await limited(
      sets([kind('per_run', 1)], [risk('per_run', 1, { per_run_counter_ttl_ms: 604_800_000 })]),
    );
    const released = await ledger.hold(inRun('r'));
    expect((await ledger.release(released.id))[0]).toBe('RELEASED');
    const lost = await ledger.hold({ ...inRun('r'), ttlMs: 1000, graceMs: 0 });
    expect(await refusalOf(ledger, inRun('r'))).toBe('ACTION_QUOTA_EXCEEDED');
    const later = at(5000);
    const reply = await later.reserve({ ...inRun('r'), key: 'k' });
    expect(reply.slice(0, 1)).toEqual(['RECLAIMED']);
    expect((await readLedger(ledger)).holds.get(lost.id)).toMatchObject({ st: 'EXPIRED' });
    const kept = await later.hold({ ...inRun('r'), key: 'k' });
    expect((await later.commit(kept.id, 5))[0]).toBe('COMMITTED');
    expect(await refusalOf(later, inRun('r'))).toBe('ACTION_QUOTA_EXCEEDED');
    await assertInvariants(ledger);
  });

  test('lapses if there is no reserve for a while, and an earlier hold subtracts nothing from the new count', async () => {
    shows('per run counters');
    const { ledger, at } = await limited(sets([kind('per_run', 1, { per_run_counter_ttl_ms: 60_000 })]));
    const old = await ledger.hold(inRun('r'));
    const key = runCountersKey(ledger.tag, ledger.tenant, 'r');
    const left = await ledger.redis.pttl(key);
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(60_000);
    expect(await refusalOf(at(59_999), inRun('r'))).toBe('ACTION_QUOTA_EXCEEDED');
    await at(60_000).hold(inRun('r'));
    expect((await at(60_001).release(old.id))[0]).toBe('RELEASED');
    expect(await refusalOf(at(60_002), inRun('r'))).toBe('ACTION_QUOTA_EXCEEDED');
  });
});

describe('runs that have lapsed', () => {
  const QUOTA = kind('per_run', 9, { per_run_counter_ttl_ms: 60_000 });
  const runsOf = ({ redis, tag, tenant }: LedgerClient): Promise<string[]> =>
    redis.zrange(runIndexKey(tag, tenant), '0', '-1');
  const entriesOf = ({ redis, tag, tenant }: LedgerClient): Promise<string[]> =>
    redis.zrange(runCounterIndexKey(tag, tenant), '0', '-1');
  const lapse = ({ redis, tag, tenant }: LedgerClient, run: string): Promise<number> =>
    redis.del(runCountersKey(tag, tenant, run));

  test('are forgotten as others begin, two at a time', async () => {
    shows('per run counters');
    const { ledger, at } = await limited(sets([QUOTA]));
    for (const run of ['a', 'b', 'c', 'long']) {
      await ledger.hold(inRun(run));
    }
    for (const run of ['a', 'b', 'c']) {
      await lapse(ledger, run);
    }
    await at(60_000).hold(inRun('d'));
    expect(await runsOf(ledger)).toEqual(expect.arrayContaining(['c', 'd', 'long']));
    expect(await entriesOf(ledger)).toEqual(
      ['c', 'd', 'long'].map((run) => `${run}|${ledger.scope()}|r|llm`),
    );
    await at(60_001).hold(inRun('e'));
    // A run that still has counters is checked again when they lapse.
    expect((await runsOf(ledger)).sort()).toEqual(['d', 'e', 'long']);
    expect(await entriesOf(ledger)).toEqual(
      ['d', 'e', 'long'].map((run) => `${run}|${ledger.scope()}|r|llm`),
    );
    await lapse(ledger, 'long');
    await at(200_000).hold(inRun('f'));
    expect(await runsOf(ledger)).not.toContain('long');
  });

  test('are forgotten a hundred counters at a time', async () => {
    const { ledger, at } = await limited(sets([QUOTA]));
    await ledger.hold(inRun('many'));
    const members = Array.from({ length: 149 }, (_, place) => ['0', `many|${ledger.scope()}|r|k${place}`]);
    await ledger.redis.zadd(runCounterIndexKey(ledger.tag, ledger.tenant), ...members.flat());
    await lapse(ledger, 'many');
    const left = async (): Promise<number> =>
      (await entriesOf(ledger)).filter((entry) => entry.startsWith('many|')).length;
    await at(60_000).hold(inRun('d'));
    expect([await left(), (await runsOf(ledger)).includes('many')]).toEqual([50, true]);
    await at(60_001).hold(inRun('e'));
    expect([await left(), (await runsOf(ledger)).includes('many')]).toEqual([0, false]);
  });
});

describe('the threshold of a quota', () => {
  test("is reported once per window, with the counter's figures", async () => {
    shows('quota thresholds');
    const { ledger, at, policy } = await limited(
      sets([kind('per_hour_tumbling', 4, { threshold_pct: 0.5 })], [risk('per_run', 5)]),
    );
    const events = async (): Promise<Readonly<Record<string, string>>[]> =>
      (await readLedger(ledger)).events
        .map(({ fields }) => fields)
        .filter(({ ty }) => ty === 'quota.threshold_approaching');
    await ledger.hold(inRun('r'));
    expect(await events()).toEqual([]);
    await ledger.hold(inRun('r'));
    await ledger.hold(inRun('r'));
    const [first] = await events();
    expect(first).toMatchObject({
      sc: ledger.scope(),
      action_kind: 'llm',
      window: 'per_hour_tumbling',
      used: '2',
      limit: '4',
      threshold_pct: '0.5',
      policy_id: policy,
      co: expect.stringMatching(/^quota:[0-9a-f]{40}$/),
    });
    const fourth = await ledger.hold(inRun('r'));
    await ledger.release(fourth.id);
    await at(HOUR_MS).hold(inRun('r'));
    await at(HOUR_MS).hold(inRun('r'));
    const told = await events();
    expect(told.map((event) => [event.risk_class, event.used])).toEqual([
      [undefined, '2'],
      ['side_effect', '4'],
      [undefined, '2'],
    ]);
    expect(told[2]?.co).not.toBe(first?.co);
  });
});

test.each(['junk', '1|2|3', '1|-1|0|1|p||'])(
  'a counter that is damaged (%s) ends the call before anything changes',
  async (text) => {
    const { ledger, day } = await limited(sets([kind('per_day_tumbling', 2)]));
    const key = actionCountersKey(ledger.tag, ledger.tenant, day);
    await ledger.redis.hset(key, `${ledger.scope()}|d|llm`, text);
    const before = await stateOf(ledger);
    await expect(ledger.reserve()).rejects.toThrow('corrupt action counter');
    expect(await stateOf(ledger)).toEqual(before);
  },
);

describe('the reset of a counter', () => {
  async function reset(ledger: LedgerClient, window: string, key: string): Promise<Reply> {
    const { tag, tenant, scripts } = ledger;
    const names = [tenant, ledger.scope(), window, key, 'llm', '', 'a reason'] as const;
    return scripts.run(
      'reset_action_counter',
      [runCounterIndexKey(tag, tenant)],
      [...names, 'admin', '', 'req_1', TRACE],
    );
  }

  test('is refused without any change, except where the window still counts', async () => {
    shows('quota counter reset');
    const { ledger, at, day } = await limited(sets([kind('per_minute_tumbling', 2), kind('per_run', 2)]));
    const date = new Date(day * DAY_MS).toISOString().slice(0, 10);
    await ledger.hold(inRun('r'));
    const before = await snapshot(ledger);
    const late = at(DAY_MS - 1);
    for (const [client, window, key] of [
      [ledger, 'per_minute_tumbling', `${date}T00:01`],
      [ledger, 'per_hour_tumbling', `${date}T00`],
      [late, 'per_minute_tumbling', `${date}T00:00`],
      [late, 'per_minute_tumbling', `${date}T23:59`],
      [ledger, 'per_run', 'other'],
      [at(DAY_MS), 'per_run', 'r'],
    ] as const) {
      expect(await reset(client, window, key)).toEqual(['NOT_FOUND']);
    }
    expect(await snapshot(ledger)).toEqual(before);
    expect((await reset(at(MINUTE_MS - 1), 'per_minute_tumbling', `${date}T00:00`))[0]).toBe('RESET');
    expect((await reset(late, 'per_run', 'r'))[0]).toBe('RESET');
    // The lapse starts anew.
    expect((await reset(at(2 * DAY_MS - 2), 'per_run', 'r'))[0]).toBe('RESET');
    await assertInvariants(ledger);
  });

  test.each(['its value', 'the log of events', 'the audit log'])(
    'ends before anything changes if %s is damaged',
    async (what) => {
      const { ledger, day } = await limited(sets([kind('per_day_tumbling', 2)]));
      await ledger.hold();
      const { redis, tag, tenant } = ledger;
      if (what === 'its value') {
        await redis.hset(actionCountersKey(tag, tenant, day), `${ledger.scope()}|d|llm`, 'junk');
      } else {
        const log = what === 'the audit log' ? auditLogKey(tag) : eventLogKey(tag);
        await redis.set(log, 'damaged');
      }
      const before = await snapshot(ledger);
      const date = new Date(day * DAY_MS).toISOString().slice(0, 10);
      await expect(reset(ledger, 'per_day_tumbling', date)).rejects.toThrow();
      expect(await snapshot(ledger)).toEqual(before);
    },
  );
});
