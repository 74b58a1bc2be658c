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
  reservation: [['rsv_1fX'], keyspace.reservationKey(TAG, 'rsv_1fX')],
  reservation_index: [['acme'], keyspace.reservationIndexKey(TAG, 'acme')],
  ttl_index: [[], keyspace.ttlIndexKey(TAG)],
  cleanup_index: [[], keyspace.cleanupIndexKey(TAG)],
  quarantine: [[], keyspace.quarantineKey(TAG)],
  journal: [[], keyspace.journalKey(TAG)],
  journal_places: [[], keyspace.journalPlacesKey(TAG)],
  event_log: [[], keyspace.eventLogKey(TAG)],
  tenant_events: [['acme'], keyspace.tenantEventsKey(TAG, 'acme')],
  correlated_events: [['closing:acme'], keyspace.correlatedEventsKey(TAG, 'closing:acme')],
  tenant: [['acme'], keyspace.tenantKey(TAG, 'acme')],
  period_index: [[], keyspace.periodIndexKey(TAG)],
  period_plans: [[], keyspace.periodPlansKey(TAG)],
  rolled: [[], keyspace.rolledKey(TAG)],
  born: [[], keyspace.bornKey(TAG)],
  budget_template: [['acme', 'per-agent'], keyspace.budgetTemplateKey(TAG, 'acme', 'per-agent')],
  budget_template_index: [['acme'], keyspace.budgetTemplateIndexKey(TAG, 'acme')],
  budget_template_pattern: [['acme'], keyspace.budgetTemplatePatternKey(TAG, 'acme')],
  turned: [[], keyspace.turnedKey(TAG)],
  owned: [['acme'], keyspace.ownedKey(TAG, 'acme')],
  evidence_bytes: [['acme'], keyspace.evidenceBytesKey(TAG, 'acme')],
  tenant_index: [[], keyspace.tenantIndexKey(TAG)],
  budget: [['TOKENS', 'tenant:acme/agent:bot'], keyspace.budgetKey(TAG, 'TOKENS', 'tenant:acme/agent:bot')],
  budget_index: [['acme'], keyspace.budgetIndexKey(TAG, 'acme')],
  audit_log: [[], keyspace.auditLogKey(TAG)],
  audit_index: [['audit-brief', 'q1f'], keyspace.auditIndexKey(TAG, 'audit-brief', 'q1f')],
  closing: [[], keyspace.closingKey(TAG)],
  api_key: [['key_1fX'], keyspace.apiKeyKey(TAG, 'key_1fX')],
  api_key_index: [['acme'], keyspace.apiKeyIndexKey(TAG, 'acme')],
  api_key_expiry: [[], keyspace.apiKeyExpiryKey(TAG)],
  policy: [['pol_1fX'], keyspace.policyKey(TAG, 'pol_1fX')],
  policy_index: [['acme'], keyspace.policyIndexKey(TAG, 'acme')],
  policy_name: [['acme'], keyspace.policyNameKey(TAG, 'acme')],
  policy_pattern: [['acme'], keyspace.policyPatternKey(TAG, 'acme')],
  policy_rate: [
    ['pol_1fX', 'commits', '29395000'],
    keyspace.policyRateKey(TAG, 'pol_1fX', 'commits', 29_395_000),
  ],
  rate_count: [
    ['acme', 'denied', '10', '176370000'],
    keyspace.rateCountKey(TAG, 'acme', 'denied', 10, 176_370_000),
  ],
  burn_rate: [
    ['300', 'TOKENS', 'tenant:acme/agent:bot'],
    keyspace.burnRateKey(TAG, 300, 'TOKENS', 'tenant:acme/agent:bot'),
  ],
  rate_told: [['acme', 'denial_rate:0.1:300'], keyspace.rateToldKey(TAG, 'acme', 'denial_rate:0.1:300')],
  action_counters: [['acme', '20780'], keyspace.actionCountersKey(TAG, 'acme', 20_780)],
  action_counter_index: [['acme', '20780'], keyspace.actionCounterIndexKey(TAG, 'acme', 20_780)],
  run_counter_index: [['acme'], keyspace.runCounterIndexKey(TAG, 'acme')],
  run_counters: [['acme', 'run%201'], keyspace.runCountersKey(TAG, 'acme', 'run%201')],
  run_index: [['acme'], keyspace.runIndexKey(TAG, 'acme')],
  waiter_queue: [['TOKENS', 'tenant:acme'], keyspace.waiterQueueKey(TAG, 'TOKENS', 'tenant:acme')],
  waiters: [['acme'], keyspace.waitersKey(TAG, 'acme')],
  arrivals: [[], keyspace.arrivalsKey(TAG)],
  webhook: [['whsub_1fX'], keyspace.webhookKey(TAG, 'whsub_1fX')],
  webhook_index: [['acme'], keyspace.webhookIndexKey(TAG, 'acme')],
  bulk_rows: [['id'], keyspace.bulkRowsKey(TAG, 'id')],
  webhook_revision: [[], keyspace.webhookRevisionKey(TAG)],
  webhook_changes: [['acme'], keyspace.webhookChangesKey(TAG, 'acme')],
  webhook_marks: [['acme'], keyspace.webhookMarksKey(TAG, 'acme')],
  delivery: [['1700000000000-0:whsub_1fX'], keyspace.deliveryKey(TAG, '1700000000000-0:whsub_1fX')],
  delivery_index: [['whsub_1fX'], keyspace.deliveryIndexKey(TAG, 'whsub_1fX')],
  operator: [['alice@example.com'], keyspace.operatorKey(TAG, 'alice@example.com')],
  operator_secret: [['hash'], keyspace.operatorSecretKey(TAG, 'hash')],
  ordered_queue: [['whsub_1fX:acme'], keyspace.orderedQueueKey(TAG, 'whsub_1fX:acme')],
  ordered_queues: [[], keyspace.orderedQueuesKey(TAG)],
  retrying: [[], keyspace.retryingKey(TAG)],
  outcomes: [[], keyspace.outcomesKey(TAG)],
  reserve_idempotency: [
    ['acme', 'any key | at all'],
    keyspace.idempotencyKey.reserve(TAG, 'acme', 'any key | at all'),
  ],
};

test('every key name of the Lua include equals that of keyspace.ts, and none is left out here', async () => {
  const text = readFileSync(new URL('../../lua/lib/keys.lua', import.meta.url), 'utf8');
  const names = [...text.matchAll(/^function keys\.(\w+)\(tag\b/gm)].map((match) => match[1]);
  expect(Object.keys(twins).sort()).toEqual(names.sort());
  const redis = new Redis(sharedStoreUrl());
  const calls = Object.entries(twins).map(
    ([name, [given]]) => `keys.${name}(${[TAG, ...given].map((part) => `'${part}'`).join(', ')})`,
  );
  const source = probeText(`#!lua flags=no-writes
-- probe: names keys.
-- RETURNS names
-- BOUND one probe
-- EMITS nothing
-- @include keys
return { keys.tag_of('${TAG}ttl'), ${calls.join(', ')} }
`);
  expect(await redis.eval(source, 0)).toEqual([TAG, ...Object.values(twins).map(([, key]) => key)]);
  await redis.quit();
});

test('no script builds a key name itself', () => {
  for (const { name, own, included } of scriptTexts()) {
    const texts = [own, ...included].map(code).filter((text) => !text.includes('function keys.reservation('));
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
