import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { ttlIndexKey } from '../../src/redis/keyspace.js';
import {
  ConsoleBrowser,
  describeInBrowser,
  WIDE_AND_NARROW,
  WITHOUT_BROWSER,
} from '../support/console-browser.js';
import { expectRefusal, expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';
import { type RedisServer, startRedis } from '../support/redis-server.js';
import { StoredHolds } from '../support/stored-holds.js';
import { advanceClock } from '../support/test-clock.js';

/** Of a page that stopped before its end, with nothing found. */
const NOTHING_YET = { has_more: true, next_cursor: 'further' };

describeInBrowser(`the console says what it knows${WITHOUT_BROWSER}`, () => {
  const browser = new ConsoleBrowser();
  let redis: RedisServer;
  let stored: StoredHolds;
  let holdfast: Holdfast;
  let tenant: TestTenant;
  let budget: string;

  beforeAll(async () => {
    redis = await startRedis();
    stored = new StoredHolds(redis.url);
    holdfast = await Holdfast.start({ REDIS_URL: redis.url, HOLDFAST_ROLES: 'api' });
    tenant = await holdfast.createTenant();
    await holdfast.createBudget(tenant, '', 100);
    budget = `/budgets/TOKENS?scope=tenant:${tenant.id}`;
  });

  afterAll(async () => {
    stored?.close();
    await holdfast?.stop();
    await redis?.stop();
  });

  /** Lets no answer come any more, and time pass. */
  async function passAlone(page: Page, time: string): Promise<void> {
    await page.route(/\/(v1|ops)\//, (route) => route.abort());
    await page.clock.fastForward(time);
  }

  test('figures grow old while no newer ones come', async () => {
    const { page, context } = await browser.enter(holdfast.url, '/sweeper');
    await page.clock.install();
    for (const path of ['/tenants', '/budgets', '/sweeper']) {
      await page.unrouteAll();
      await page.goto(`${holdfast.url}/console${path}`);
      const figures = page.getByText(/as of \d\d:\d\d:\d\d/).first();
      await figures.waitFor();
      expect(await figures.innerText()).not.toContain('old');
      await passAlone(page, '02:05');
      await page
        .getByText(/as of \d\d:\d\d:\d\d, 2 min \d+ s old/)
        .first()
        .waitFor();
    }
    await context.close();
  });

  test('what was not read is not none', async () => {
    const { page, context } = await browser.enter(holdfast.url, '/sweeper');
    await page.route('**/console/api/stream', async (route) => {
      const snapshot = { at_ms: Date.now(), readiness: { ready: true, details: {} }, memory: [] };
      await route.fulfill({
        contentType: 'text/event-stream',
        body: `data: ${JSON.stringify({ version: '1', records_activity: true, ...snapshot })}\n\n`,
      });
    });
    await page.goto(`${holdfast.url}/console/`);
    const inFlight = page.getByRole('region', { name: 'In flight' });
    await inFlight.getByText('Next to expire').waitFor();
    await page.getByText('Ready for traffic').waitFor();
    expect(await inFlight.locator('dd').allInnerTexts()).toEqual(['–', '–', '–', '–']);
    await context.close();
  });

  test('partitions whose keys are damaged are named beside the holds of the others, which lead to them', async () => {
    const held = await holdfast.hold(tenant, 1);
    const other = stored.tagOfTenant(tenant.id) === '{p00}' ? '{p01}' : '{p00}';
    await stored.redis.set(ttlIndexKey(other), 'no index');
    await browser.visit(
      holdfast.url,
      '/',
      'Without the holds of 1 partition',
      async (page) => {
        const inFlight = page.getByRole('region', { name: 'In flight' });
        await inFlight.getByRole('link', { name: /^1 ?hold$/ }).click();
        await page.getByRole('link', { name: held }).waitFor();
        await page.goBack();
        await page.getByText('Without the holds of 1 partition').waitFor();
      },
      { looks: WIDE_AND_NARROW },
    );
    await stored.redis.del(ttlIndexKey(other));
  });

  test('a search that stopped early has not found nothing', async () => {
    const { page, context } = await browser.enter(holdfast.url, '/tenants');
    await page.route(/\/v1\/admin\/events\?/, (route) =>
      route.fulfill({ json: { events: [], ...NOTHING_YET } }),
    );
    await page.goto(`${holdfast.url}/console${budget}`);
    await page.getByText('None of the newest events is a denial').waitFor();
    await page.getByText('None of the newest 1,000 events changed it').waitFor();
    await page.getByText('not among the newest events').first().waitFor();
    await context.close();
  });

  test('a client that did something has the name of its key, which leads to it', async () => {
    const key = await holdfast.createKey(tenant.id, { name: 'billing-backend' });
    const id = await holdfast.hold(tenant, 2);
    const path = `/v1/reservations/${id}/commit`;
    const body = { idempotency_key: 'commit-it', actual: { unit: 'TOKENS', amount: 2 } };
    expectStatus(await holdfast.call('POST', path, { key, body }), 200);
    expectRefusal(await holdfast.reserve({ id: tenant.id, key }, 5000), 409, 'BUDGET_EXCEEDED');
    await browser.visit(holdfast.url, `/reservations/${id}`, 'by billing-backend');
    await browser.visit(holdfast.url, `/events?tenant_id=${tenant.id}`, 'billing-backend', async (page) => {
      await page.getByRole('row', { name: /reservation\.denied.*billing-backend/ }).waitFor();
      await page.getByRole('link', { name: 'billing-backend' }).first().click();
      await page.getByRole('dialog', { name: 'billing-backend' }).getByText('Revoke this key').waitFor();
    });
  });

  test('a tenant has its sums, of topmost budgets, which lead to what they are made of', async () => {
    const other = await holdfast.createTenant();
    await browser.visit(holdfast.url, `/tenants/${other.id}`, 'No budgets were counted');
    await holdfast.createBudget(other, '', 100);
    await holdfast.createBudget(other, '/agent:a', 50);
    const id = await holdfast.hold(other, 4);
    const body = { idempotency_key: 'commit-four', actual: { unit: 'TOKENS', amount: 4 } };
    expectStatus(await holdfast.call('POST', `/v1/reservations/${id}/commit`, { key: other.key, body }), 200);
    await holdfast.hold(other, 3);
    await browser.visit(
      holdfast.url,
      `/tenants/${other.id}`,
      'of its topmost budgets',
      async (page) => {
        const figures = page.getByRole('region', { name: 'Figures' }).locator('table');
        await figures.getByRole('row', { name: 'tokens 93 4 3 100 not known', exact: true }).waitFor();
        await figures.getByRole('link', { name: 'tokens' }).click();
        await page.waitForURL(`${holdfast.url}/console/budgets?tenant_id=${other.id}&unit=TOKENS`);
        await page.getByText('2 rows').waitFor();
        await page.goBack();
        await figures.waitFor();
      },
      { looks: WIDE_AND_NARROW },
    );
  });

  test('a clock that was advanced is on every page, and a warning', async () => {
    const store = await startRedis();
    const advanced = await Holdfast.start({ REDIS_URL: store.url, HOLDFAST_TEST_CLOCK: 'true' });
    await advanceClock(advanced, { by_ms: 3_600_000 });
    const { page, context } = await browser.enter(advanced.url, '/');
    await page.getByText('test_clock_advanced').waitFor();
    await page.goto(`${advanced.url}/console/audit`);
    await page.getByText(/Test clock: (1 h|59 min)/).waitFor();
    await context.close();
    expect(await advanced.metric('holdfast_warning', { code: 'test_clock_advanced' })).toBe(1);
    await advanced.stop();
    await store.stop();
  });

  test('changes of a budget are those of its credits, too', async () => {
    const scope = `tenant:${tenant.id}`;
    const credit = { tenant_id: tenant.id, scope, unit: 'TOKENS', amount: { unit: 'TOKENS', amount: 5 } };
    const granted = await holdfast.admin('POST', '/ops/budgets/credits', {
      ...credit,
      name: 'Trial',
      idempotency_key: 'trial',
    });
    const { credit_id: id } = expectStatus(granted, 201);
    const ended = await holdfast.admin('POST', `/ops/budgets/credits/${id}/void`, {});
    // What holds have pinned is not taken back.
    const { amount: voided } = expectStatus(ended, 200).voided as { amount: number };
    await browser.visit(holdfast.url, budget, 'Credit voided', async (page) => {
      const changes = page.getByRole('region', { name: 'Changes of the budget' });
      await changes.getByRole('row', { name: /Credit granted 5 tokens/ }).waitFor();
      await changes.getByRole('row', { name: new RegExp(`Credit voided ${voided} tokens`) }).waitFor();
    });
  });
});
