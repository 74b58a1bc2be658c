import {
  partitionCode,
  partitionOfTenant,
  tagOfPartition,
  tenantIndexKey,
  webhookIndexKey,
  webhookKey,
} from '../../src/redis/keyspace.js';
import { tenantKey } from '../../src/redis/keyspace.js';
import { SYSTEM_OWNER } from '../../src/redis/keyspace.js';
import { ScriptRegistry } from '../../src/redis/scripts.js';
import { SecretBox } from '../../src/webhooks/signing/secret-box.js';
import { LedgerClient, TRACE } from '../support/ledger-client.js';
import { setTemplate } from '../support/template-client.js';
import type { ExpiryPolicy } from './model-records.js';
import { type Endpoint, MOST_ATTEMPTS } from './world-endpoint.js';
import { WorldLedger } from './world-ledger.js';
import { PARTITIONS, WORLD_CONFIG } from './world-service.js';
import type { WorldStore } from './world-store.js';

const UNIT = 'TOKENS';
/** Tenants of the two partitions, with their expiry policies. */
const TENANTS: readonly (readonly [partition: number, ExpiryPolicy])[] = [
  [0, 'AUTO_RELEASE'],
  [1, 'GRACE_ONLY'],
  [1, 'AUTO_RELEASE'],
];
const RETRIES = `${MOST_ATTEMPTS - 1},200,2,2000`;
const LEDGER_EVENTS = [
  'reservation.expired',
  'reservation.denied',
  'reservation.commit_overage',
  'budget.exhausted',
  'budget.funded',
];

/** Creates the tenants, budgets and subscriptions of a play, in the ledger and in the model. */
export async function makeLedgers(store: WorldStore, endpoint: Endpoint): Promise<WorldLedger[]> {
  const scripts = new ScriptRegistry(store.redis);
  const ledgers = Array.from(
    { length: PARTITIONS },
    (_, number) =>
      new WorldLedger(
        number,
        new LedgerClient(store.redis, tagOfPartition(number), nameIn(number, 'own'), scripts),
      ),
  );
  for (const [index, [partition, expiryPolicy]] of TENANTS.entries()) {
    const ledger = ledgers[partition] as WorldLedger;
    const tenant = nameIn(partition, `tenant-${index}`);
    await makeTenant(ledger, tenant, expiryPolicy);
    await subscribe(ledger, scripts, endpoint, tenant, LEDGER_EVENTS.slice(index));
  }
  const system = partitionOfTenant(SYSTEM_OWNER, PARTITIONS);
  const all = ['reservation.expired', 'budget.exhausted', 'system.webhook_delivery_failed'];
  await subscribe(ledgers[system] as WorldLedger, scripts, endpoint, SYSTEM_OWNER, all);
  return ledgers;
}

/** A tenant name that belongs to the partition. */
function nameIn(partition: number, start: string): string {
  let count = 0;
  while (partitionOfTenant(`${start}-${count}`, PARTITIONS) !== partition) {
    count += 1;
  }
  return `${start}-${count}`;
}

async function makeTenant(
  { client, model }: WorldLedger,
  tenant: string,
  expiryPolicy: ExpiryPolicy,
): Promise<void> {
  const plan = { policy: undefined, defaultTtlMs: 10_000, maxTtlMs: 60_000, maxExtensions: 3 };
  model.tenants.set(tenant, { status: 'ACTIVE', expiryPolicy, ...plan });
  await client.makeTenant(
    {
      reservation_expiry_policy: expiryPolicy,
      default_reservation_ttl_ms: String(plan.defaultTtlMs),
      max_reservation_ttl_ms: String(plan.maxTtlMs),
      max_reservation_extensions: String(plan.maxExtensions),
    },
    tenant,
  );
  await client.redis.zadd(tenantIndexKey(client.tag), 1, tenant);
  const budgets = [
    { scope: client.scope({}, tenant), allocated: 1500n, overdraftLimit: 0n },
    { scope: client.scope({ agent: 'bot' }, tenant), allocated: 600n, overdraftLimit: 200n },
  ];
  for (const budget of budgets) {
    model.budgets.push({
      ...budget,
      unit: UNIT,
      spent: 0n,
      debt: 0n,
      marked: false,
      status: 'ACTIVE',
      windows: [],
    });
    await client.makeBudget({ ...budget, unit: UNIT });
    const key = client.budgetKeyOf(budget.scope, UNIT);
    await client.redis.hset(key, { tenant_id: tenant, ledger_id: 'ldg_1' });
  }
  const template = { tenant, id: 'per-workspace', unit: UNIT, allocated: 90n };
  await setTemplate(client, { ...template, pattern: '/workspace:*' });
  model.templates.push({
    ...template,
    pattern: `tenant:${tenant}/workspace:*`,
    overdraftLimit: 0n,
    policy: undefined,
  });
}

async function subscribe(
  { client, number }: WorldLedger,
  scripts: ScriptRegistry,
  endpoint: Endpoint,
  owner: string,
  types: readonly string[],
): Promise<void> {
  const { tag } = client;
  const id = `whsub_${partitionCode(number)}${String(endpoint.subscriptions.length).padStart(16, '0')}`;
  const secret = new SecretBox(WORLD_CONFIG).seal('a secret', {
    subscriptionId: id,
    kind: 'signing_secret',
  });
  const record = { rp: RETRIES, df: '1000', ur: endpoint.urlOf(id), se: secret };
  const reply = await scripts.run(
    'create_webhook',
    [webhookKey(tag, id), webhookIndexKey(tag, owner), tenantKey(tag, owner)],
    [
      owner,
      id,
      types.join(),
      '',
      'createWebhookSubscription',
      'admin',
      '',
      'req_1',
      TRACE,
      0,
      ...Object.entries(record).flat(),
    ],
  );
  if (reply[0] !== 'CREATED') {
    throw new Error(`the subscription was not created: ${reply.join(' ')}`);
  }
  endpoint.subscriptions.push({ id, tenant: owner === SYSTEM_OWNER ? '' : owner, types });
}
