import { expectStatus, type TestTenant } from '../../support/holdfast.js';
import { PUBLIC_URL } from '../../support/subscriber.js';
import { ADMIN_ONLY, LONG_PART, refused, succeeds, type OperationRow } from './table.js';
import { type Sample, type World } from './world.js';

const ADMIN = '/v1/admin/webhooks';
const TENANT = '/v1/webhooks';
const CONFIG = '/v1/admin/config/webhook-security';
const UNKNOWN = 'whsub_00aaaaaaaaaaaaaaaa';

/** A tenant whose key has all webhook permissions. */
async function subscriber(world: World): Promise<TestTenant> {
  const tenant = await world.tenant();
  return {
    ...tenant,
    key: await world.holdfast.createKey(tenant.id, {
      permissions: ['webhooks:read', 'webhooks:write', 'balances:read'],
    }),
  };
}

const body = (more: Record<string, unknown> = {}): Record<string, unknown> => ({
  url: PUBLIC_URL,
  event_types: ['reservation.expired'],
  ...more,
});
const create = (tenant: TestTenant, more: Record<string, unknown> = {}): Sample => ({
  method: 'POST',
  path: TENANT,
  tenant,
  body: body(more),
});
const createAsAdmin = (tenantId: string, more: Record<string, unknown> = {}): Sample => ({
  method: 'POST',
  path: `${ADMIN}?tenant_id=${tenantId}`,
  body: body(more),
});

interface Subscribed {
  readonly tenant: TestTenant;
  readonly id: string;
}

async function subscribed(world: World): Promise<Subscribed> {
  const tenant = await subscriber(world);
  return {
    tenant,
    id: expectStatus(await world.send(create(tenant)), 201).subscription.subscription_id as string,
  };
}

async function closed(world: World): Promise<Subscribed> {
  const found = await subscribed(world);
  await world.setTenant(found.tenant, { status: 'CLOSED' });
  return found;
}

/** A request about one subscription, on either plane. */
type OnOne = (subscribed: Subscribed, id?: string) => Sample;
const asAdmin =
  (method: string, content?: Record<string, unknown>): OnOne =>
  ({ id }, other) => ({
    method,
    path: `${ADMIN}/${other ?? id}`,
    ...(content === undefined ? {} : { body: content }),
  });
const asTenant =
  (method: string, content?: Record<string, unknown>): OnOne =>
  ({ id, tenant }, other) => ({
    method,
    path: `${TENANT}/${other ?? id}`,
    tenant,
    ...(content === undefined ? {} : { body: content }),
  });

const notFound = (request: OnOne): OperationRow['others'][number] =>
  refused(404, 'WEBHOOK_NOT_FOUND', 'an id that was never issued', async (world) =>
    request(await subscribed(world), UNKNOWN),
  );
const tooLong = (request: OnOne): OperationRow['others'][number] =>
  refused(400, 'INVALID_REQUEST', 'an id longer than any', async (world) =>
    request(await subscribed(world), LONG_PART),
  );
const ofClosed = (request: OnOne): OperationRow['others'][number] =>
  refused(409, 'TENANT_CLOSED', 'a closed tenant', async (world) => request(await closed(world)));

function oneRow(
  id: string,
  success: number,
  request: OnOne,
  more: Partial<OperationRow> & { changes: boolean },
): OperationRow {
  const { changes, ...rest } = more;
  return {
    id,
    success,
    sample: async (world) => request(await subscribed(world)),
    others: [tooLong(request), notFound(request), ...(changes ? [ofClosed(request)] : [])],
    ...rest,
  };
}

async function configured(world: World, method: string): Promise<Sample> {
  const put: Sample = { method: 'PUT', path: CONFIG, body: { allow_http: false } };
  expectStatus(await world.send(put), 200);
  return method === 'PUT' ? put : { method, path: CONFIG };
}

async function bulk(world: World, more: Record<string, unknown> = {}): Promise<Sample> {
  const { tenant } = await subscribed(world);
  return world.adminExample('bulkActionWebhooks', tenant, { more });
}

const CHANGE = { name: 'changed' };

export const WEBHOOK_ROWS: readonly OperationRow[] = [
  {
    id: 'createWebhookSubscription',
    success: 201,
    sample: async (world) => createAsAdmin((await subscriber(world)).id),
    others: [
      refused(400, 'WEBHOOK_URL_INVALID', 'a private address', async (world) =>
        createAsAdmin((await subscriber(world)).id, { url: 'https://10.0.0.1/' }),
      ),
      refused(404, 'TENANT_NOT_FOUND', 'an unknown tenant', () => Promise.resolve(createAsAdmin('nobody'))),
      refused(409, 'TENANT_CLOSED', 'a closed tenant', async (world) =>
        createAsAdmin((await closed(world)).tenant.id),
      ),
    ],
    impossible: ADMIN_ONLY,
  },
  {
    id: 'listWebhookSubscriptions',
    success: 200,
    withoutDamaged: { status: 200 },
    sample: async (world) => ({
      method: 'GET',
      path: `${ADMIN}?tenant_id=${(await subscribed(world)).tenant.id}`,
    }),
    others: [
      refused(400, 'INVALID_REQUEST', 'an unknown status', () =>
        Promise.resolve({ method: 'GET', path: `${ADMIN}?status=OFF` }),
      ),
    ],
    impossible: ADMIN_ONLY,
  },
  oneRow('getWebhookSubscription', 200, asAdmin('GET'), { changes: false, impossible: ADMIN_ONLY }),
  oneRow('updateWebhookSubscription', 200, asAdmin('PATCH', CHANGE), {
    changes: true,
    impossible: ADMIN_ONLY,
  }),
  oneRow('deleteWebhookSubscription', 204, asAdmin('DELETE'), { changes: true, impossible: ADMIN_ONLY }),
  {
    id: 'bulkActionWebhooks',
    success: 200,
    sample: (world) => bulk(world),
    others: [
      refused(400, 'INVALID_REQUEST', 'an empty filter', (world) => bulk(world, { filter: {} })),
      refused(409, 'COUNT_MISMATCH', 'a number other than expected', (world) =>
        bulk(world, { expected_count: 2 }),
      ),
    ],
    impossible: ADMIN_ONLY,
  },
  {
    id: 'getWebhookSecurityConfig',
    success: 200,
    sample: (world) => configured(world, 'GET'),
    others: [],
    impossible: { ...ADMIN_ONLY, 400: 'only the key of the request is read' },
  },
  {
    id: 'updateWebhookSecurityConfig',
    success: 200,
    sample: (world) => configured(world, 'PUT'),
    others: [],
    impossible: ADMIN_ONLY,
  },
  {
    id: 'createTenantWebhook',
    success: 201,
    plane: 'governance',
    sample: async (world) => create(await subscriber(world)),
    others: [
      refused(400, 'INVALID_REQUEST', "the operators' own events", async (world) =>
        create(await subscriber(world), { event_types: ['api_key.created'] }),
      ),
      refused(409, 'TENANT_CLOSED', 'a closed tenant', async (world) => create((await closed(world)).tenant)),
    ],
  },
  {
    id: 'listTenantWebhooks',
    success: 200,
    withoutDamaged: { status: 200 },
    plane: 'governance',
    sample: async (world) => ({ method: 'GET', path: TENANT, tenant: (await subscribed(world)).tenant }),
    others: [
      succeeds(200, 'the admin key, of one tenant', async (world) => ({
        method: 'GET',
        path: `${TENANT}?tenant=${(await subscribed(world)).tenant.id}`,
      })),
      refused(400, 'INVALID_REQUEST', 'the admin key without a tenant', () =>
        Promise.resolve({ method: 'GET', path: TENANT }),
      ),
    ],
  },
  oneRow('getTenantWebhook', 200, asTenant('GET'), { changes: false, plane: 'governance' }),
  oneRow('updateTenantWebhook', 200, asTenant('PATCH', CHANGE), { changes: true, plane: 'governance' }),
  oneRow('deleteTenantWebhook', 204, asTenant('DELETE'), { changes: true, plane: 'governance' }),
];
