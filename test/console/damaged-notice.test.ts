import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { ConsoleBrowser, describeInBrowser, WITHOUT_BROWSER } from '../support/console-browser.js';
import { Holdfast, type TestTenant } from '../support/holdfast.js';
import { type RedisServer, startRedis } from '../support/redis-server.js';
import { StoredRecords } from '../support/stored-records.js';

describeInBrowser(`damaged records${WITHOUT_BROWSER}`, () => {
  const browser = new ConsoleBrowser();
  let redis: RedisServer;
  let holdfast: Holdfast;
  let tenant: TestTenant;

  beforeAll(async () => {
    redis = await startRedis();
    holdfast = await Holdfast.start({ REDIS_URL: redis.url });
    tenant = await holdfast.createTenant();
    await holdfast.createBudget(tenant, '', 100);
    await holdfast.createBudget(tenant, '/agent:bad', 100);
    const stored = new StoredRecords(redis.url);
    await stored.redis.hset(stored.budgetKey(tenant.id, '/agent:bad'), 'spent', 'junk');
    await stored.close();
  });

  afterAll(async () => {
    await holdfast?.stop();
    await redis?.stop();
  });

  test('are named on the page that leaves them out, and on no other', async () => {
    await browser.visit(holdfast.url, '/budgets', tenant.id, async (page) => {
      const notice = page.getByText('Left out here, because their records are damaged');
      await notice.waitFor();
      expect(await notice.textContent()).toContain(`budget tenant:${tenant.id}/agent:bad TOKENS`);
      await page.getByRole('link', { name: 'Events', exact: true }).click();
      await notice.waitFor({ state: 'detached' });
    });
  });
});
