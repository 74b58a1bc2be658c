import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { ConsoleBrowser, describeInBrowser, logIn, WITHOUT_BROWSER } from '../support/console-browser.js';
import { eventually } from '../support/eventually.js';
import { ADMIN_API_KEY, expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';
import { type RedisServer, startRedis } from '../support/redis-server.js';
import { PUBLIC_URL } from '../support/subscriber.js';
import { subscribe } from '../webhooks/dispatching.js';

describeInBrowser(`what all pages have in common${WITHOUT_BROWSER}`, () => {
  const browser = new ConsoleBrowser();
  let redis: RedisServer;
  let holdfast: Holdfast;
  let tenant: TestTenant;
  let held: string;
  let subscription: string;

  beforeAll(async () => {
    redis = await startRedis();
    holdfast = await Holdfast.start({ REDIS_URL: redis.url });
    tenant = await holdfast.createTenant();
    await holdfast.createBudget(tenant, '', 100);
    held = expectStatus(await holdfast.reserve(tenant, 7), 200).reservation_id as string;
    subscription = await subscribe(holdfast, tenant, PUBLIC_URL);
  });

  afterAll(async () => {
    await holdfast?.stop();
    await redis?.stop();
  });

  test('each page has a title of its own, also where it fails', async () => {
    const { page, complaints, context } = await browser.open(holdfast.url, '/tenants');
    const title = (name: string): Promise<unknown> =>
      eventually(`the title is that of ${name}`, async () => (await page.title()) === `${name} · Holdfast`);
    await title('Log in');
    await logIn(page, ADMIN_API_KEY);
    await title('Tenants');
    for (const [path, name] of [
      ['/', 'Overview'],
      ['/budgets?search=prod', 'Budgets'],
      ['/reservations', 'Reservations'],
      ['/sweeper', 'Sweeper'],
      ['/webhooks', 'Webhooks'],
      ['/verify', 'Verify'],
      ['/expirations', 'Expirations'],
      ['/events', 'Events'],
      ['/audit', 'Audit log'],
      [`/tenants/${tenant.id}`, tenant.id],
      [`/budgets/TOKENS?scope=tenant:${tenant.id}`, `tenant:${tenant.id} in TOKENS`],
      [`/reservations/${held}`, held],
      [`/webhooks/${subscription}`, PUBLIC_URL],
      ['/tenants/none', 'none'],
      ['/none', 'No such page'],
    ] as const) {
      await page.goto(`${holdfast.url}/console${path}`);
      await title(name);
    }
    await page.getByRole('link', { name: 'Budgets' }).click();
    await title('Budgets');
    await page.goBack();
    await title('No such page');
    expect(complaints).toEqual([]);
    await context.close();
  });
});
