import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { budgetIndexKey, budgetKey } from '../../src/redis/keyspace.js';
import { makeHolds } from '../support/bulk-holds.js';
import { VIEWER_API_KEY } from '../support/console-client.js';
import {
  ATTACK,
  ConsoleBrowser,
  describeInBrowser,
  expectAccessible,
  SHORT_ATTACK,
  WITHOUT_BROWSER,
} from '../support/console-browser.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast, type Json, newTenantId, type TestTenant } from '../support/holdfast.js';
import { PUBLIC_URL } from '../support/subscriber.js';
import { subscribe } from '../webhooks/dispatching.js';
import { type RedisServer, startRedis } from '../support/redis-server.js';
import { StoredHolds } from '../support/stored-holds.js';

describeInBrowser(`the pages of the ledger${WITHOUT_BROWSER}`, () => {
  const browser = new ConsoleBrowser();
  let redis: RedisServer;
  let holdfast: Holdfast;
  let tenant: TestTenant;
  let held: Json;

  beforeAll(async () => {
    redis = await startRedis();
    holdfast = await Holdfast.start({ REDIS_URL: redis.url, VIEWER_API_KEY, RECORD_ACTIVITY: 'true' });
    tenant = await holdfast.createTenant({ name: ATTACK });
    await holdfast.createBudget(tenant, '', 9_007_199_254_740_993n, { unit: 'USD_MICROCENTS' });
    await holdfast.createBudget(tenant, '', 1000);
    const period = { period_end: '2100-01-01T00:00:00Z', rollover_policy: 'CARRY_FORWARD' };
    await holdfast.createBudget(tenant, '/workspace:prod', 100, period);
    const subject = { tenant: tenant.id, workspace: 'prod' };
    const quarter = { event_types: ['budget.threshold_crossed'], thresholds: { budget_utilization: [0.25] } };
    await subscribe(holdfast, tenant, PUBLIC_URL, quarter);
    held = expectStatus(
      await holdfast.reserve(tenant, 40, {
        subject,
        action: { kind: SHORT_ATTACK, name: ATTACK },
        idempotency_key: ATTACK,
        ttl_ms: 3_600_000,
      }),
      200,
    );
    expectStatus(await holdfast.reserve(tenant, 700, { subject }), 409);
  });

  afterAll(async () => {
    await holdfast?.stop();
    await redis?.stop();
  });

  const scope = (): string => `tenant:${tenant.id}/workspace:prod`;
  const budget = async (): Promise<Json> =>
    expectStatus(await holdfast.admin('GET', `/v1/admin/budgets/lookup?scope=${scope()}&unit=TOKENS`), 200);

  const visit = (
    path: string,
    ...rest: Parameters<ConsoleBrowser['visit']> extends [string, string, ...infer Rest] ? Rest : never
  ) => browser.visit(holdfast.url, path, ...rest);

  test.each(['light', 'dark'] as const)(
    'show what a client stored as text, accessibly, in %s colours',
    async (colorScheme) => {
      await visit('/tenants', ATTACK, undefined, { colorScheme });
      await visit(`/budgets?tenant_id=${tenant.id}`, '$90,071,992.54740993', undefined, { colorScheme });
      await visit(
        `/budgets/TOKENS?scope=${scope()}`,
        'budget exceeded',
        async (page) => {
          await page.getByText('If a commit costs more: as the tenant says.').waitFor();
          await page.getByText('to 1 Jan 2100, 01:00:00. The next one').waitFor();
          await page.getByText('What is not spent is carried over.').waitFor();
          await page.getByRole('row', { name: /^25% reached .* upwards$/ }).waitFor();
          await page.getByRole('row', { name: /^80% not reached never/ }).waitFor();
          await page.getByRole('img', { name: 'Denials a day, at most 1' }).waitFor();
          await page.getByRole('row', { name: / Created – 100 / }).waitFor();
        },
        { colorScheme },
      );
      await visit(
        `/reservations?tenant=${tenant.id}`,
        held.reservation_id as string,
        async (page) => {
          await page.getByLabel('Scope, by its levels').fill(`${scope()}/agent:none`);
          await page.waitForURL(/workspace=prod&agent=none/);
          await page.getByText('No reservations here').waitFor();
          await page.getByLabel('Scope, by its levels').fill('workspace:prod');
          await page.getByText('1 row', { exact: true }).waitFor();
          await page.getByLabel('Created to').fill('2026-01-01T00:00:00');
          await page.getByText('No reservations here').waitFor();
        },
        { colorScheme },
      );
      await visit(
        `/reservations/${held.reservation_id}`,
        `${SHORT_ATTACK} ${ATTACK}`,
        (page) => page.getByText(ATTACK, { exact: true }).waitFor(),
        { colorScheme },
      );
    },
  );

  test('filters are in the URL, and a narrow screen has no sideways scroll', async () => {
    await visit(
      '/budgets',
      'tenant:',
      async (page) => {
        await page.getByLabel('Scope contains').fill('prod');
        await page.waitForURL(/search=prod/);
        await page.getByText('1 row', { exact: true }).waitFor();
      },
      { viewport: { width: 390, height: 800 } },
    );
  });

  /** The budgets of ten thousand agents below that of the tenant, stored as copies of it. */
  async function storeAgents(of: TestTenant): Promise<void> {
    const stored = new StoredHolds(redis.url);
    const tag = stored.tagOfTenant(of.id);
    const template = await stored.redis.hgetall(budgetKey(tag, 'TOKENS', `tenant:${of.id}`));
    const pipeline = stored.redis.pipeline();
    for (let agent = 0; agent < 10_000; agent += 1) {
      const path = `tenant:${of.id}/workspace:w${agent % 50}/agent:a${agent}`;
      pipeline.hset(budgetKey(tag, 'TOKENS', path), {
        ...template,
        ledger_id: `${template['ledger_id']}${agent}`,
      });
      pipeline.zadd(budgetIndexKey(tag, of.id), 0, `${path} TOKENS`);
    }
    await pipeline.exec();
    stored.close();
  }

  test('ten thousand budgets are scrolled through with few rows in the document, ordered and searched', async () => {
    const many = await holdfast.createTenant();
    await holdfast.createBudget(many, '', 100);
    await storeAgents(many);
    await visit(`/budgets?tenant_id=${many.id}&sort_by=scope`, '100 rows, more to come', async (page) => {
      const rows = (): Promise<number> =>
        page.evaluate<number>("document.querySelectorAll('tbody tr').length");
      const shown = page.getByRole('status').filter({ hasText: 'rows, more to come' });
      await eventually('six pages have come', async () => {
        await page.evaluate('window.scrollTo(0, document.documentElement.scrollHeight)');
        return Number((await shown.innerText()).replace(/\D/g, '')) >= 600;
      });
      await eventually('rows out of sight leave the document', async () => (await rows()) < 450);
      await page.evaluate('window.scrollTo(0, 0)');
      await page.getByRole('link', { name: `tenant:${many.id}`, exact: true }).waitFor();
      await page.getByLabel('Order by').selectOption('debt');
      await page.getByText('100 rows, more to come').waitFor();
      await page.getByLabel('Scope contains').fill('a9999');
      await page.getByText('1 row', { exact: true }).waitFor();
    });
  });

  test('of many holds those with the first deadlines are shown, or the newest if sorting takes too long', async () => {
    const many = await holdfast.createTenant();
    await holdfast.createBudget(many, '', 1000);
    const stored = new StoredHolds(redis.url);
    const holds = Array.from({ length: 101 }, () => ({}));
    await makeHolds(stored.redis, stored.tagOfTenant(many.id), many.id, holds);
    stored.close();
    await visit(`/budgets/TOKENS?scope=tenant:${many.id}`, 'Live holds by deadline', async (page) => {
      await page.getByText('the first 50').or(page.getByText('of the newest 100')).waitFor();
      await page.route(/sort_by=expires_at_ms/, (route) => route.abort());
      await page.reload();
      await page.getByText('of the newest 100').waitFor();
    });
    await visit(`/tenants/${many.id}`, 'Live holds', async (page) => {
      // As where a filter matches nothing on the first page, which ends after so many reservations.
      await page.route(/v1\/reservations\?/, (route) => {
        const url = new URL(route.request().url());
        const cursor = url.searchParams.get('cursor');
        url.searchParams.delete('cursor');
        return cursor === null
          ? route.fulfill({ json: { reservations: [], has_more: true, next_cursor: 'second' } })
          : route.continue(cursor === 'second' ? { url: url.href } : {});
      });
      await page.getByRole('link', { name: 'Live holds' }).click();
      await page.getByText('100 rows, more to come').waitFor();
    });
  });

  test('an operator funds, freezes and unfreezes a budget, seeing before what it will do', async () => {
    await visit(`/budgets/TOKENS?scope=${scope()}`, held.reservation_id as string, async (page) => {
      await page.getByRole('button', { name: 'Fund or reset' }).click();
      await page.getByLabel('Amount').fill('50');
      await page.getByLabel('Reason').fill(ATTACK);
      await page.getByRole('row', { name: 'Allocated 100 150' }).waitFor();
      await expectAccessible(page);
      await page.getByRole('button', { name: 'Change the budget' }).click();
      await page.getByText('Allocated 150 tokens').waitFor();
      const change = page.getByRole('row', { name: / Funded 100 150 / });
      await change.getByRole('cell', { name: ATTACK, exact: true }).waitFor();
      expect((await budget()).allocated.amount).toBe(150);
      for (const [verb, status] of [
        ['Freeze', 'FROZEN'],
        ['Unfreeze', 'ACTIVE'],
      ] as const) {
        await page.getByRole('button', { name: verb, exact: true }).click();
        await page.getByRole('dialog').getByRole('button', { name: verb, exact: true }).click();
        await page.getByRole('dialog').waitFor({ state: 'detached' });
        expect((await budget()).status).toBe(status);
      }
    });
  });

  test('an operator creates a tenant and a key, whose secret works until the key is revoked', async () => {
    const id = newTenantId();
    await visit('/tenants', ATTACK, async (page) => {
      await page.getByRole('button', { name: 'Create tenant' }).click();
      await page.getByLabel('Id').fill(id);
      await page.getByLabel('Name').fill('Made here');
      await page.getByRole('dialog').getByRole('button', { name: 'Create tenant' }).click();
      const row = page.getByRole('row').filter({ hasText: id });
      await row.getByRole('button', { name: 'Create key' }).click();
      await page.getByLabel('Name').fill(ATTACK);
      await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
      const key = await page.getByRole('status').filter({ hasText: 'cyc_' }).innerText();
      const balances = () => holdfast.call('GET', `/v1/balances?tenant=${id}`, { key });
      expect((await balances()).status).toBe(200);
      await page.getByRole('button', { name: 'I have copied it' }).click();
      await row.getByRole('link', { name: 'Made here' }).click();
      await page.getByRole('button', { name: `Revoke ${ATTACK}` }).click();
      await page.getByLabel('Reason').fill(ATTACK);
      await page.getByRole('row', { name: 'Status Active Revoked' }).waitFor();
      await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
      await page.getByRole('cell', { name: 'Revoked', exact: true }).waitFor();
      await eventually('the key is refused', async () => (await balances()).status === 401);
      const { keys } = expectStatus(await holdfast.admin('GET', `/v1/admin/api-keys?tenant_id=${id}`), 200);
      expect(keys).toMatchObject([{ name: ATTACK, status: 'REVOKED', revoked_reason: ATTACK }]);
    });
  });

  test('an operator releases a reservation with a reason, and its time line says so', async () => {
    await visit(`/reservations/${held.reservation_id}`, 'Lease ends', async (page) => {
      await page.getByRole('button', { name: 'Release' }).click();
      await page.getByLabel('Reason').fill(ATTACK);
      await page.getByRole('dialog').getByRole('button', { name: 'Release' }).click();
      await page.getByText('by an operator').waitFor();
      await page.getByRole('listitem').filter({ hasText: 'by an operator' }).getByText(ATTACK).waitFor();
      expect((await budget()).reserved.amount).toBe(0);
    });
  });

  test('a viewer sees the pages without what changes them', async () => {
    await visit(
      `/budgets/TOKENS?scope=${scope()}`,
      'Figures',
      async (page) => {
        await page.getByText('Read only').waitFor();
        expect(await page.getByRole('button', { name: 'Freeze' }).count()).toBe(0);
      },
      { key: VIEWER_API_KEY },
    );
  });
});
