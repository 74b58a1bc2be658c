import { expect, test } from '@jest/globals';
import { correlatedEventsKey, eventLogKey, tenantEventsKey } from '../../src/redis/keyspace.js';
import type { LedgerClient } from '../support/ledger-client.js';
import { useLedger } from '../support/use-ledger.js';
import { probeText } from '../support/script-probe.js';

const newLedger = useLedger();

const PROBE = `#!lua
-- probe: tells one event.
-- KEYS[1] event_log
-- ARGV[1] tenant
-- ARGV[2] correlation
-- RETURNS entry
-- BOUND one probe
-- EMITS tenant.created
-- @include event_writer, keys
local tag = keys.tag_of(KEYS[1])
event_writer.require_event_log(tag)
local origin = { actor = 'system', key = '', request = 'req_1', correlation = ARGV[2] ~= '' and ARGV[2] or nil }
return event_writer.append_event(tag, 'tenant.created', ARGV[1], nil, origin, { 'tenant_id', ARGV[1], 'empty', '' })
`;

function tell(ledger: LedgerClient, correlation = ''): Promise<unknown> {
  return ledger.redis.eval(probeText(PROBE), 1, eventLogKey(ledger.tag), ledger.tenant, correlation);
}

test('an event is in the log, and under the same id among the events of its tenant and of its correlation id', async () => {
  const ledger = await newLedger();
  const [first, second] = [await tell(ledger), await tell(ledger, 'together')];
  const log = await ledger.redis.xrange(eventLogKey(ledger.tag), '-', '+');
  expect(log).toEqual([
    [
      first,
      [
        'ty',
        'tenant.created',
        'tn',
        ledger.tenant,
        'ac',
        'system',
        'rq',
        'req_1',
        'tenant_id',
        ledger.tenant,
      ],
    ],
    [
      second,
      [
        'ty',
        'tenant.created',
        'tn',
        ledger.tenant,
        'ac',
        'system',
        'rq',
        'req_1',
        'co',
        'together',
        'tenant_id',
        ledger.tenant,
      ],
    ],
  ]);
  const index = ['y', 'tenant.created'];
  expect(await ledger.redis.xrange(tenantEventsKey(ledger.tag, ledger.tenant), '-', '+')).toEqual([
    [first, index],
    [second, index],
  ]);
  expect(await ledger.redis.xrange(correlatedEventsKey(ledger.tag, 'together'), '-', '+')).toEqual([
    [second, index],
  ]);
});

test('a damaged index does not keep an event out of the log', async () => {
  const ledger = await newLedger();
  await ledger.redis.set(tenantEventsKey(ledger.tag, ledger.tenant), 'damaged');
  await ledger.redis.xadd(correlatedEventsKey(ledger.tag, 'ahead'), '9000000000000-0', 'y', 'tenant.created');
  const entry = await tell(ledger, 'ahead');
  expect((await ledger.redis.xrange(eventLogKey(ledger.tag), '-', '+')).map(([id]) => id)).toEqual([entry]);
});

test('a damaged log ends the script before anything is written', async () => {
  const ledger = await newLedger();
  await ledger.redis.set(eventLogKey(ledger.tag), 'damaged');
  await expect(tell(ledger, 'together')).rejects.toThrow('WRONGTYPE');
  expect(
    await ledger.redis.exists(
      tenantEventsKey(ledger.tag, ledger.tenant),
      correlatedEventsKey(ledger.tag, 'together'),
    ),
  ).toBe(0);
});
