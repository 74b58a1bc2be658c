import { expectStatus, type TestTenant } from '../../support/holdfast.js';
import { ADMIN_ONLY, LONG_PART, refused, succeeds, type OperationRow } from './table.js';
import type { Sample, World } from './world.js';

const SECURITY = '/v1/admin/config/webhook-security';

interface Subscribed {
  readonly tenant: TestTenant;
  readonly id: string;
}

/**
 * A subscription to an address that the configuration stops allowing once the subscription exists, so that
 * nothing is ever sent.
 */
async function subscribed(world: World): Promise<Subscribed> {
  const tenant = await world.tenant();
  const key = await world.holdfast.createKey(tenant.id, {
    permissions: ['webhooks:read', 'webhooks:write', 'balances:read'],
  });
  expectStatus(await world.holdfast.admin('PUT', SECURITY, { blocked_cidr_ranges: [] }), 200);
  const body = { url: 'https://127.0.0.1:9/hook', event_types: ['budget.created'] };
  const { subscription } = expectStatus(
    await world.holdfast.admin('POST', `/v1/admin/webhooks?tenant_id=${tenant.id}`, body),
    201,
  );
  expectStatus(await world.holdfast.admin('PUT', SECURITY, {}), 200);
  return { tenant: { ...tenant, key }, id: subscription.subscription_id as string };
}

async function asAdmin(
  world: World,
  method: string,
  verb: string,
  body?: Record<string, unknown>,
): Promise<Sample> {
  return {
    method,
    path: `/v1/admin/webhooks/${(await subscribed(world)).id}/${verb}`,
    ...(body === undefined ? {} : { body }),
  };
}

async function asTenant(world: World, method: string, verb: string): Promise<Sample> {
  const { tenant, id } = await subscribed(world);
  return { method, path: `/v1/webhooks/${id}/${verb}`, tenant };
}

async function ofClosed(
  world: World,
  method: string,
  verb: string,
  body?: Record<string, unknown>,
): Promise<Sample> {
  const { tenant, id } = await subscribed(world);
  await world.setTenant(tenant, { status: 'CLOSED' });
  return { method, path: `/v1/admin/webhooks/${id}/${verb}`, ...(body === undefined ? {} : { body }) };
}

const nowhere = (sample: Sample, id: string): Sample => ({
  ...sample,
  path: sample.path.replace(/whsub_[^/]+/, id),
});
const UNKNOWN = 'whsub_00aaaaaaaaaaaaaaaa';

export const DELIVERY_ROWS: readonly OperationRow[] = [
  {
    id: 'testWebhookSubscription',
    success: 200,
    sample: (world) => asAdmin(world, 'POST', 'test'),
    others: [
      refused(400, 'INVALID_REQUEST', 'an id longer than any', async (world) =>
        nowhere(await asAdmin(world, 'POST', 'test'), LONG_PART),
      ),
      refused(404, 'WEBHOOK_NOT_FOUND', 'an id that was never issued', async (world) =>
        nowhere(await asAdmin(world, 'POST', 'test'), UNKNOWN),
      ),
      refused(409, 'TENANT_CLOSED', 'a closed tenant', (world) => ofClosed(world, 'POST', 'test')),
    ],
    impossible: ADMIN_ONLY,
  },
  {
    id: 'testTenantWebhook',
    success: 200,
    plane: 'governance',
    sample: (world) => asTenant(world, 'POST', 'test'),
    others: [
      refused(400, 'INVALID_REQUEST', 'an id longer than any', async (world) =>
        nowhere(await asTenant(world, 'POST', 'test'), LONG_PART),
      ),
      refused(404, 'WEBHOOK_NOT_FOUND', "another tenant's subscription", async (world) => ({
        ...(await asTenant(world, 'POST', 'test')),
        tenant: (await subscribed(world)).tenant,
      })),
      refused(409, 'TENANT_CLOSED', 'a closed tenant', async (world) => {
        const { path } = await ofClosed(world, 'POST', 'test');
        return { method: 'POST', path: path.replace('/admin', '') };
      }),
    ],
  },
  {
    id: 'listWebhookDeliveries',
    success: 200,
    sample: (world) => asAdmin(world, 'GET', 'deliveries'),
    others: [
      refused(400, 'INVALID_REQUEST', 'an unknown status', async (world) => {
        const { method, path } = await asAdmin(world, 'GET', 'deliveries');
        return { method, path: `${path}?status=LOST` };
      }),
      refused(404, 'WEBHOOK_NOT_FOUND', 'an id that was never issued', async (world) =>
        nowhere(await asAdmin(world, 'GET', 'deliveries'), UNKNOWN),
      ),
    ],
    impossible: ADMIN_ONLY,
  },
  {
    id: 'listTenantWebhookDeliveries',
    success: 200,
    plane: 'governance',
    sample: (world) => asTenant(world, 'GET', 'deliveries'),
    others: [
      refused(400, 'INVALID_REQUEST', 'a page size of 0', async (world) => {
        const { path, ...sample } = await asTenant(world, 'GET', 'deliveries');
        return { ...sample, path: `${path}?limit=0` };
      }),
      refused(404, 'WEBHOOK_NOT_FOUND', "another tenant's subscription", async (world) => ({
        ...(await asTenant(world, 'GET', 'deliveries')),
        tenant: (await subscribed(world)).tenant,
      })),
    ],
  },
  {
    id: 'replayEvents',
    success: 202,
    sample: (world) => asAdmin(world, 'POST', 'replay', {}),
    others: [
      succeeds(202, 'a window, types and a count', (world) =>
        asAdmin(world, 'POST', 'replay', {
          from: '2026-01-01T00:00:00Z',
          to: '2030-01-01T00:00:00Z',
          event_types: ['budget.created'],
          max_events: 1000,
        }),
      ),
      refused(400, 'INVALID_REQUEST', 'more events than the protocol allows', (world) =>
        asAdmin(world, 'POST', 'replay', { max_events: 1001 }),
      ),
      refused(404, 'WEBHOOK_NOT_FOUND', 'an id that was never issued', async (world) =>
        nowhere(await asAdmin(world, 'POST', 'replay', {}), UNKNOWN),
      ),
      refused(409, 'REPLAY_IN_PROGRESS', 'a second replay', async (world) => {
        const sample = await asAdmin(world, 'POST', 'replay', {});
        expectStatus(await world.send(sample), 202);
        return sample;
      }),
      refused(409, 'TENANT_CLOSED', 'a closed tenant', (world) => ofClosed(world, 'POST', 'replay', {})),
    ],
    impossible: ADMIN_ONLY,
  },
];
