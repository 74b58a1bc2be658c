import { expectStatus } from '../../support/holdfast.js';
import { ADMIN_ONLY, LONG_PART, refused, succeeds, type OperationRow } from './table.js';
import type { Sample, World } from './world.js';

const KEYS = '/v1/admin/api-keys';

async function revoke(world: World): Promise<Sample> {
  const { id } = await world.holdfast.createTenant();
  const created = await world.holdfast.admin('POST', KEYS, { tenant_id: id, name: 'short-lived' });
  return { method: 'DELETE', path: `${KEYS}/${expectStatus(created, 201).key_id}` };
}

async function update(world: World): Promise<Sample> {
  const { path } = await revoke(world);
  return world.adminExample('updateApiKey', { id: '', key: '' }, { of: path.slice(KEYS.length + 1) });
}

export const API_KEY_ROWS: readonly OperationRow[] = [
  {
    id: 'createApiKey',
    success: 201,
    sample: async (world) => world.adminExample('createApiKey', await world.holdfast.createTenant()),
    others: [
      refused(400, 'INVALID_REQUEST', 'an unknown tenant', () =>
        Promise.resolve({ method: 'POST', path: KEYS, body: { tenant_id: 'nobody', name: 'n' } }),
      ),
      refused(409, 'TENANT_CLOSED', 'a closed tenant', async (world) => {
        const { id } = await world.setTenant(await world.tenant(), { status: 'CLOSED' });
        return { method: 'POST', path: KEYS, body: { tenant_id: id, name: 'n' } };
      }),
    ],
    impossible: ADMIN_ONLY,
  },
  {
    id: 'listApiKeys',
    success: 200,
    withoutDamaged: { status: 200 },
    sample: async (world) => ({ method: 'GET', path: `${KEYS}?tenant_id=${(await world.tenant()).id}` }),
    others: [
      refused(400, 'INVALID_REQUEST', 'an unknown order', () =>
        Promise.resolve({ method: 'GET', path: `${KEYS}?sort_dir=up` }),
      ),
    ],
    impossible: ADMIN_ONLY,
  },
  {
    id: 'revokeApiKey',
    success: 200,
    sample: revoke,
    others: [
      refused(400, 'INVALID_REQUEST', 'an id longer than any', () =>
        Promise.resolve({ method: 'DELETE', path: `${KEYS}/${LONG_PART}` }),
      ),
      refused(404, 'NOT_FOUND', 'an id that was never issued', () =>
        Promise.resolve({ method: 'DELETE', path: `${KEYS}/key_00aaaaaaaaaaaaaaaa` }),
      ),
      refused(409, 'KEY_REVOKED', 'a key that is already revoked', async (world) => {
        const first = await revoke(world);
        await world.send(first);
        return first;
      }),
    ],
    impossible: ADMIN_ONLY,
  },
  {
    id: 'updateApiKey',
    success: 200,
    sample: update,
    others: [
      refused(404, 'NOT_FOUND', 'an id that was never issued', () =>
        Promise.resolve({ method: 'PATCH', path: `${KEYS}/key_00aaaaaaaaaaaaaaaa`, body: { name: 'n' } }),
      ),
      refused(409, 'KEY_REVOKED', 'a revoked key', async (world) => {
        const sample = await update(world);
        await world.send({ method: 'DELETE', path: sample.path });
        return sample;
      }),
    ],
    impossible: ADMIN_ONLY,
  },
  {
    id: 'validateApiKey',
    success: 200,
    sample: async (world) => ({
      method: 'POST',
      path: '/v1/auth/validate',
      body: { key_secret: (await world.tenant()).key },
    }),
    others: [
      succeeds(200, 'an unknown key', () =>
        Promise.resolve({ method: 'POST', path: '/v1/auth/validate', body: { key_secret: 'nothing' } }),
      ),
      succeeds(200, "a closed tenant's key", async (world) => ({
        method: 'POST',
        path: '/v1/auth/validate',
        body: { key_secret: (await world.setTenant(await world.tenant(), { status: 'CLOSED' })).key },
      })),
    ],
    impossible: ADMIN_ONLY,
  },
  {
    id: 'introspectAuth',
    success: 200,
    sample: async (world) => ({ method: 'GET', path: '/v1/auth/introspect', tenant: await world.tenant() }),
    others: [
      succeeds(200, 'the admin key', () => Promise.resolve({ method: 'GET', path: '/v1/auth/introspect' })),
    ],
    impossible: {
      400: 'nothing in the request could be wrong',
      403: 'every valid key may ask about itself',
    },
    keyOnly: true,
  },
];
