import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  ConsoleBrowser,
  describeInBrowser,
  WIDE_AND_NARROW,
  WITHOUT_BROWSER,
} from '../support/console-browser.js';
import { expectRefusal, Holdfast, newKey, type TestTenant } from '../support/holdfast.js';
import { type RedisServer, startRedis } from '../support/redis-server.js';

describeInBrowser(`the page of refused requests${WITHOUT_BROWSER}`, () => {
  const browser = new ConsoleBrowser();
  let redis: RedisServer;
  let holdfast: Holdfast;
  let tenant: TestTenant;
  let requestId: string;

  beforeAll(async () => {
    redis = await startRedis();
    holdfast = await Holdfast.start({ REDIS_URL: redis.url });
    tenant = await holdfast.createTenant();
    await holdfast.createBudget(tenant, '/workspace:prod', 100);
    const denied = await holdfast.call('POST', '/v1/reservations', {
      key: tenant.key,
      body: {
        idempotency_key: newKey(),
        subject: { tenant: tenant.id, workspace: 'prod' },
        action: { kind: 'llm.completion', name: 'n' },
        estimate: { unit: 'TOKENS', amount: 500 },
      },
    });
    expectRefusal(denied, 409, 'BUDGET_EXCEEDED');
    requestId = denied.headers.get('x-request-id') as string;
    expectRefusal(
      await holdfast.call('GET', '/v1/balances', { key: 'cyc_live_nobody' }),
      401,
      'UNAUTHORIZED',
    );
  });

  afterAll(async () => {
    await holdfast?.stop();
    await redis?.stop();
  });

  test('says why a request was refused, by its id', async () => {
    await browser.visit(
      holdfast.url,
      '/requests',
      'BUDGET_EXCEEDED',
      async (page) => {
        await page.getByRole('row', { name: /UNAUTHORIZED.*no valid key/ }).waitFor();
        await page.getByLabel('Request id').fill(requestId);
        await page.getByText('UNAUTHORIZED').waitFor({ state: 'detached' });
        await page.getByRole('button', { name: 'createReservation' }).click();
        const details = page.getByRole('dialog', { name: 'createReservation' });
        await details.getByText('BUDGET_EXCEEDED').waitFor();
        expect(await details.getByText(/remaining/).count()).toBe(1);
        expect(await details.getByRole('link', { name: tenant.id }).count()).toBeGreaterThan(0);
        await page.keyboard.press('Escape');
        await details.waitFor({ state: 'detached' });
      },
      { looks: WIDE_AND_NARROW },
    );
  });

  test('says what it would have, where it has nothing', async () => {
    await browser.visit(holdfast.url, '/requests?row=req_none', 'The request log does not have it');
    await browser.visit(holdfast.url, '/requests?tenant_id=nobody', 'the last 1,000 of each tenant');
  });
});
