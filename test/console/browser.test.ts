import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { VIEWER_API_KEY } from '../support/console-client.js';
import {
  ATTACK,
  ConsoleBrowser,
  describeInBrowser,
  expectAccessible,
  LIGHT_AND_DARK,
  logIn,
  WITHOUT_BROWSER,
} from '../support/console-browser.js';
import { ADMIN_API_KEY, expectStatus, Holdfast, newTenantId } from '../support/holdfast.js';
import { type RedisServer, startRedis } from '../support/redis-server.js';
import { PUBLIC_URL, storedWebhookKey } from '../support/subscriber.js';
import { subscribe, SYSTEM } from '../webhooks/dispatching.js';

describeInBrowser(`the console in a browser${WITHOUT_BROWSER}`, () => {
  const browser = new ConsoleBrowser();
  let redis: RedisServer;
  let holdfast: Holdfast;

  beforeAll(async () => {
    // Keeps its data when it is killed and started again.
    redis = await startRedis({ appendonly: true });
    holdfast = await Holdfast.start({ REDIS_URL: redis.url, VIEWER_API_KEY, RECORD_ACTIVITY: 'true' });
    const tenant = { id: newTenantId(), key: '' };
    expectStatus(
      await holdfast.admin('POST', '/v1/admin/tenants', { tenant_id: tenant.id, name: ATTACK }),
      201,
    );
    const key = await holdfast.createKey(tenant.id);
    await holdfast.createBudget(tenant, '', 9_007_199_254_740_993n, { unit: 'USD_MICROCENTS' });
    await holdfast.createBudget(tenant, '/workspace:prod', 100);
    expectStatus(
      await holdfast.reserve({ ...tenant, key }, 40, { subject: { tenant: tenant.id, workspace: 'prod' } }),
      200,
    );
  });

  afterAll(async () => {
    await holdfast?.stop();
    await redis?.stop();
  });

  test('a key opens the requested page, a wrong one does not, and log-out closes it', async () => {
    const { page, complaints, context } = await browser.open(holdfast.url, '/');
    await expectAccessible(page);
    await logIn(page, 'a-wrong-key-0123456789');
    await page.getByText('This is not the key of an operator.').waitFor();
    await logIn(page, ADMIN_API_KEY);
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    expect(await page.evaluate('document.cookie')).toBe('');
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByRole('heading', { name: 'Log in to the console' }).waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  });

  test('the overview is live, exact and accessible in light and dark colours', async () => {
    await browser.visit(
      holdfast.url,
      '/',
      'Ready for traffic',
      async (page) => {
        await page.getByText('Live', { exact: true }).waitFor();
        await page.getByText('Ready for traffic', { exact: true }).waitFor();
        // 2^53 + 1 microcents, which a double would round.
        await page.getByText('$90,071,992.5474', { exact: true }).first().waitFor();
        await page.getByTitle('$90,071,992.54740993, 9007199254740993 USD_MICROCENTS').first().waitFor();
        await page.getByText('60 tokens').waitFor();
        await page.getByRole('list', { name: 'Amounts held' }).getByText('40 tokens').waitFor();
      },
      { looks: LIGHT_AND_DARK },
    );
  });

  test('what readiness warns of stands on the overview, with what to do, and is a metric', async () => {
    const warning = `Redis at 127.0.0.1:${redis.port} has no memory limit: it grows until the kernel kills it. Set maxmemory`;
    const { body } = await holdfast.call('GET', '/health/ready');
    expect(body.details.redis.warnings).toEqual([{ code: 'no_memory_limit', message: warning }]);
    expect(await holdfast.metric('holdfast_warning', { code: 'no_memory_limit' })).toBe(1);
    await browser.visit(
      holdfast.url,
      '/',
      'Ready for traffic',
      async (page) => {
        const said = page.getByRole('list', { name: 'Warnings' }).getByRole('listitem');
        await said.getByText(`${warning}. no_memory_limit`).waitFor();
        expect(await said.count()).toBe(1);
      },
      { looks: LIGHT_AND_DARK },
    );
    const client = new Redis(redis.url);
    await client.config('SET', 'maxmemory', '200mb');
    await client.quit();
    await browser.visit(holdfast.url, '/', 'Ready for traffic', async (page) => {
      await page.getByText('Live', { exact: true }).waitFor();
      // What the page has first may be older than the change.
      await page.getByRole('list', { name: 'Warnings' }).waitFor({ state: 'hidden' });
    });
    const { text } = await holdfast.call('GET', '/metrics', {
      headers: { 'x-admin-api-key': ADMIN_API_KEY },
    });
    expect(text).toContain('# TYPE holdfast_warning gauge');
    expect(text).not.toContain('no_memory_limit');
  });

  test('a viewer sees that the page is read-only', async () => {
    const { page, context } = await browser.enter(holdfast.url, '/', { key: VIEWER_API_KEY });
    await page.getByText('Read only').waitFor();
    await context.close();
  });

  test('the overview leads to the webhooks that were disabled', async () => {
    const disabled = await subscribe(holdfast, SYSTEM, PUBLIC_URL);
    const client = new Redis(redis.url);
    await client.hset(storedWebhookKey(disabled), { st: 'DISABLED' });
    await client.quit();
    await browser.visit(holdfast.url, '/', 'No active subscription fails', async (page) => {
      await page.getByRole('link', { name: '1 disabled' }).click();
      await page.getByText('1 row', { exact: true }).waitFor();
    });
  });

  test('a session that ends leads to the log-in', async () => {
    const { page, context } = await browser.enter(holdfast.url, '/');
    await page.getByText('Live', { exact: true }).waitFor();
    const client = new Redis(redis.url);
    await client.del(...(await client.keys('{p*}cs:*')));
    await client.quit();
    await page.reload();
    await page.getByRole('heading', { name: 'Log in to the console' }).waitFor();
    await context.close();
  });

  test('while Redis hangs or is down, the page says so, and continues when it is back', async () => {
    const { page, complaints, context } = await browser.enter(holdfast.url, '/');
    const isReady = page.getByText('Ready for traffic', { exact: true });
    await isReady.waitFor();
    redis.pause();
    await page.getByText('Not ready for traffic').waitFor();
    await page.getByText('Redis is down').waitFor();
    redis.resume();
    await isReady.waitFor();
    await redis.kill();
    await page.getByText('Redis is down').waitFor();
    await page.getByRole('link', { name: 'Tenants' }).click();
    // The overview may have said the same.
    await page.getByRole('heading', { name: 'Tenants', level: 1 }).waitFor();
    await page.getByText('Redis does not answer. The overview says more').waitFor();
    await expectAccessible(page);
    await redis.restart();
    await page.getByRole('link', { name: 'Overview' }).click();
    await isReady.waitFor();
    await page.getByText('60 tokens').waitFor();
    await page.getByRole('link', { name: 'Tenants' }).click();
    await page.getByText(ATTACK).waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  });
});
