import { executionAsyncResource } from 'node:async_hooks';
import { expect, test } from '@jest/globals';
import { expectStatus, Holdfast } from '../support/holdfast.js';

/**
 * How many async storages have been used. Node.js 20 stores a value of each of them in every promise; newer
 * versions do not.
 */
async function storages(): Promise<number> {
  await Promise.resolve();
  return Object.getOwnPropertySymbols(executionAsyncResource()).length;
}

async function play(): Promise<void> {
  const holdfast = await Holdfast.start();
  try {
    const tenant = await holdfast.createTenant();
    const answer = await holdfast.call('GET', '/v1/reservations', { key: tenant.key });
    expectStatus(answer, 200);
    const hook = { url: 'https://localhost/hook', event_types: ['tenant.created'] };
    const path = `/v1/admin/webhooks?tenant_id=${tenant.id}`;
    expectStatus(await holdfast.admin('POST', path, hook), 400);
  } finally {
    await holdfast.stop();
  }
}

test('a stopped instance leaves nothing in the promises of its process', async () => {
  await play();
  const before = await storages();
  await play();
  expect(await storages()).toBe(before);
});
