import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import * as keyspace from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { sharedStoreUrl } from '../support/store.js';
import { code, scriptTexts } from '../support/script-text.js';
import { probeText } from '../support/script-probe.js';

const TAG = keyspace.tagOf('1f');

/** Each key of the Lua include, with its counterpart in TypeScript. */
const twins: Record<string, [arguments_: string[], key: string]> = {
  reservation_key: [['rsv_1fX'], keyspace.reservationKey(TAG, 'rsv_1fX')],
  reservation_index_key: [['acme'], keyspace.reservationIndexKey(TAG, 'acme')],
  ttl_index_key: [[], keyspace.ttlIndexKey(TAG)],
  cleanup_index_key: [[], keyspace.cleanupIndexKey(TAG)],
  quarantine_key: [[], keyspace.quarantineKey(TAG)],
  ended_key: [[], keyspace.endedKey(TAG)],
  event_log_key: [[], keyspace.eventLogKey(TAG)],
  tenant_events_key: [['acme'], keyspace.tenantEventsKey(TAG, 'acme')],
  correlated_events_key: [['closing:acme'], keyspace.correlatedEventsKey(TAG, 'closing:acme')],
  tenant_key: [['acme'], keyspace.tenantKey(TAG, 'acme')],
  period_index_key: [[], keyspace.periodIndexKey(TAG)],
  period_plans_key: [[], keyspace.periodPlansKey(TAG)],
  rolled_key: [[], keyspace.rolledKey(TAG)],
  turned_key: [[], keyspace.turnedKey(TAG)],
  clock_deadlines_key: [['acme'], keyspace.clockDeadlinesKey(TAG, 'acme')],
  clock_cleanup_key: [['acme'], keyspace.clockCleanupKey(TAG, 'acme')],
  clock_periods_key: [['acme'], keyspace.clockPeriodsKey(TAG, 'acme')],
  clock_plans_key: [['acme'], keyspace.clockPlansKey(TAG, 'acme')],
  clock_lapses_key: [['acme'], keyspace.clockLapsesKey(TAG, 'acme')],
  test_clock_key: [['clk_X'], keyspace.testClockKey(TAG, 'clk_X')],
  test_clock_tenants_key: [['clk_X'], keyspace.testClockTenantsKey(TAG, 'clk_X')],
  owned_key: [['acme'], keyspace.ownedKey(TAG, 'acme')],
  evidence_bytes_key: [['acme'], keyspace.evidenceBytesKey(TAG, 'acme')],
  tenant_index_key: [[], keyspace.tenantIndexKey(TAG)],
  budget_key: [
    ['TOKENS', 'tenant:acme/agent:bot'],
    keyspace.budgetKey(TAG, 'TOKENS', 'tenant:acme/agent:bot'),
  ],
  budget_index_key: [['acme'], keyspace.budgetIndexKey(TAG, 'acme')],
  audit_log_key: [[], keyspace.auditLogKey(TAG)],
  audit_index_key: [['audit-brief', 'q1f'], keyspace.auditIndexKey(TAG, 'audit-brief', 'q1f')],
  closing_key: [[], keyspace.closingKey(TAG)],
  api_key_key: [['key_1fX'], keyspace.apiKeyKey(TAG, 'key_1fX')],
  api_key_index_key: [['acme'], keyspace.apiKeyIndexKey(TAG, 'acme')],
  api_key_expiry_key: [[], keyspace.apiKeyExpiryKey(TAG)],
  policy_key: [['pol_1fX'], keyspace.policyKey(TAG, 'pol_1fX')],
  policy_index_key: [['acme'], keyspace.policyIndexKey(TAG, 'acme')],
  policy_name_key: [['acme'], keyspace.policyNameKey(TAG, 'acme')],
  policy_pattern_key: [['acme'], keyspace.policyPatternKey(TAG, 'acme')],
  policy_rate_key: [
    ['pol_1fX', 'commits', '29395000'],
    keyspace.policyRateKey(TAG, 'pol_1fX', 'commits', 29_395_000),
  ],
  rate_count_key: [
    ['acme', 'denied', '10', '176370000'],
    keyspace.rateCountKey(TAG, 'acme', 'denied', 10, 176_370_000),
  ],
  burn_rate_key: [
    ['300', 'TOKENS', 'tenant:acme/agent:bot'],
    keyspace.burnRateKey(TAG, 300, 'TOKENS', 'tenant:acme/agent:bot'),
  ],
  rate_told_key: [['acme', 'denial_rate:0.1:300'], keyspace.rateToldKey(TAG, 'acme', 'denial_rate:0.1:300')],
  action_counters_key: [['acme', '20780'], keyspace.actionCountersKey(TAG, 'acme', 20_780)],
  action_counter_index_key: [['acme', '20780'], keyspace.actionCounterIndexKey(TAG, 'acme', 20_780)],
  run_counter_index_key: [['acme'], keyspace.runCounterIndexKey(TAG, 'acme')],
  run_counters_key: [['acme', 'run%201'], keyspace.runCountersKey(TAG, 'acme', 'run%201')],
  run_index_key: [['acme'], keyspace.runIndexKey(TAG, 'acme')],
  waiter_queue_key: [['TOKENS', 'tenant:acme'], keyspace.waiterQueueKey(TAG, 'TOKENS', 'tenant:acme')],
  waiters_key: [['acme'], keyspace.waitersKey(TAG, 'acme')],
  arrivals_key: [[], keyspace.arrivalsKey(TAG)],
  webhook_key: [['whsub_1fX'], keyspace.webhookKey(TAG, 'whsub_1fX')],
  webhook_index_key: [['acme'], keyspace.webhookIndexKey(TAG, 'acme')],
  bulk_rows_key: [['id'], keyspace.bulkRowsKey(TAG, 'id')],
  webhook_revision_key: [[], keyspace.webhookRevisionKey(TAG)],
  webhook_changes_key: [['acme'], keyspace.webhookChangesKey(TAG, 'acme')],
  webhook_marks_key: [['acme'], keyspace.webhookMarksKey(TAG, 'acme')],
  delivery_key: [['1700000000000-0:whsub_1fX'], keyspace.deliveryKey(TAG, '1700000000000-0:whsub_1fX')],
  delivery_index_key: [['whsub_1fX'], keyspace.deliveryIndexKey(TAG, 'whsub_1fX')],
  ordered_queue_key: [['whsub_1fX:acme'], keyspace.orderedQueueKey(TAG, 'whsub_1fX:acme')],
  ordered_queues_key: [[], keyspace.orderedQueuesKey(TAG)],
  retrying_key: [[], keyspace.retryingKey(TAG)],
  outcomes_key: [[], keyspace.outcomesKey(TAG)],
  reserve_idempotency_key: [
    ['acme', 'any key | at all'],
    keyspace.idempotencyKey.reserve(TAG, 'acme', 'any key | at all'),
  ],
};

const MOST_NAMES = 50;

test('every key name of the Lua include equals that of keyspace.ts, and none is left out here', async () => {
  const text = readFileSync(new URL('../../lua/lib/keys.lua', import.meta.url), 'utf8');
  const names = [...text.matchAll(/local function (\w+)\(tag\b/g)].map((match) => match[1]);
  expect(Object.keys(twins).sort()).toEqual(names.sort());
  const redis = new Redis(sharedStoreUrl());
  // A Lua function can refer to at most 60 names of the functions around it.
  for (let first = 0; first < names.length; first += MOST_NAMES) {
    const some = Object.entries(twins).slice(first, first + MOST_NAMES);
    const calls = some.map(
      ([name, [given]]) => `${name}(${[TAG, ...given].map((part) => `'${part}'`).join(', ')})`,
    );
    const header = `#!lua flags=no-writes
-- probe: names keys.
-- RETURNS names
-- BOUND one probe
-- EMITS nothing
-- @include keys: tag_of_key, ${some.map(([name]) => name).join(', ')}
`;
    const source = probeText(`${header}return { tag_of_key('${TAG}ttl'), ${calls.join(', ')} }\n`);
    expect(await redis.eval(source, 0)).toEqual([TAG, ...some.map(([, [, key]]) => key)]);
  }
  await redis.quit();
});

test('no script builds a key name itself', () => {
  for (const { name, own, included } of scriptTexts()) {
    const texts = [own, ...included]
      .map(code)
      .filter((text) => !text.includes('local function reservation_key'));
    for (const text of texts) {
      expect(`${name}: ${/\btag \.\. /.exec(text)?.[0] ?? 'none'}`).toBe(`${name}: none`);
    }
  }
});

test('a partition is crc16 of the tenant modulo the count, whatever the power of two', () => {
  expect(keyspace.partitionOfTenant('123456789', 256)).toBe(0x31c3 % 256);
  expect(keyspace.partitionOfTenant('123456789', 64)).toBe(0x31c3 % 64);
  expect(keyspace.partitionOfTenant('123456789', 1)).toBe(0);
});

test('an id names its partition, and one that was never issued names none', () => {
  const name = 'abcdefghij012345';
  expect(keyspace.tagOfReservationId(`rsv_1f${name}`, 64)).toBe('{p1f}');
  expect(keyspace.tagOfReservationId(`rsv_40${name}`, 64)).toBeUndefined();
  expect(keyspace.tagOfReservationId(`rsv_1F${name}`, 64)).toBeUndefined();
  expect(keyspace.tagOfReservationId(`rsv_1f${name}x`, 64)).toBeUndefined();
  expect(keyspace.tagOfReservationId(`rsv_1f${name}\n`, 64)).toBeUndefined();
  expect(keyspace.tagOfKeyId(`key_00${name}`, 1)).toBe('{p00}');
  expect(keyspace.tagOfKeySecret(`cyc_live_ff${'a'.repeat(43)}`, 256)).toBe('{pff}');
  expect(keyspace.tagOfKeySecret(`cyc_live_ff${'a'.repeat(42)}`, 256)).toBeUndefined();
});

test('two idempotent requests never share a record name', () => {
  shows('idempotency scope');
  const { idempotencyKey: names } = keyspace;
  const all = [
    names.reserve(TAG, 'a', 'b|c'),
    names.reserve(TAG, 'a|b', 'c'.replace('c', 'd')),
    names.commit(TAG, 'a', 'b', 'c'),
    names.release(TAG, 'a', 'b', 'c'),
    names.extend(TAG, 'a', 'b', 'c'),
    names.fund(TAG, 'TOKENS', 'a', 'b|c'),
    names.decide(TAG, 'a', 'b|c'),
    names.directDebit(TAG, 'a', 'b|c'),
  ];
  expect(new Set(all).size).toBe(all.length);
});
