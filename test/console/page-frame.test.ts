import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Locator, Page } from 'playwright-core';
import {
  ConsoleBrowser,
  describeInBrowser,
  expectAccessible,
  logIn,
  WITHOUT_BROWSER,
} from '../support/console-browser.js';
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
    const period = { period_end: '2100-01-01T00:00:00Z', rollover_policy: 'CARRY_FORWARD' };
    await holdfast.createBudget(tenant, '', 100, period);
    held = await holdfast.hold(tenant, 7, { ttl_ms: 3_600_000 });
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
      ['/maintenance', 'Restore and upgrade'],
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

  test('filters stand in even rows, and what clears them never in one of its own', async () => {
    const { page, context } = await browser.enter(holdfast.url, '/budgets');
    for (const width of [1280, 1440]) {
      await page.setViewportSize({ width, height: 860 });
      for (const path of [
        ...['/budgets', '/reservations', `/reservations?tenant=${tenant.id}`, '/usage', '/webhooks'],
        ...['/expirations', '/events', '/requests', '/audit', '/tenants', '/operators'],
      ]) {
        await page.goto(`${holdfast.url}/console${path}`);
        await page.getByRole('button', { name: 'Clear filters' }).waitFor();
        const rows = await page.evaluate<{ right: number; bottom: number; isClear: boolean }[]>(
          `[...document.querySelectorAll('.filters .filter, .filters-clear')].map((part) => {
            const { right, bottom } = part.getBoundingClientRect();
            return { right: Math.round(right), bottom: Math.round(bottom), isClear: part.matches('.filters-clear') };
          })`,
        );
        const filters = rows.filter(({ isClear }) => !isClear);
        const bottoms = [...new Set(filters.map(({ bottom }) => bottom))];
        const ends = bottoms.map((at) =>
          Math.max(...filters.filter(({ bottom }) => bottom === at).map(({ right }) => right)),
        );
        const full = new Set(ends.slice(0, -1));
        expect({ path, width, ends, isFull: full.size <= 1 }).toMatchObject({ isFull: true });
        expect({ path, width, bottom: rows.at(-1)?.bottom }).toEqual({ path, width, bottom: bottoms.at(-1) });
      }
    }
    await context.close();
  });

  test('the first Tab of a page leads past the navigation', async () => {
    const { page, context } = await browser.enter(holdfast.url, '/budgets?search=tenant');
    await page.getByText('1 row', { exact: true }).waitFor();
    await page.keyboard.press('Tab');
    const skip = page.getByRole('link', { name: 'Skip to content' });
    expect(await skip.boundingBox()).toMatchObject({ x: 12, y: 12 });
    await expectAccessible(page);
    await page.keyboard.press('Enter');
    expect(await focused(page)).toBe('Budgets');
    await page.keyboard.press('Tab');
    expect(await focused(page)).toBe('Create budget');
    expect(new URL(page.url()).hash).toBe('');
    await page.goto(`${holdfast.url}/console/tenants/none`);
    await page.getByRole('button', { name: 'Try again' }).waitFor();
    await skip.press('Enter');
    expect(await focused(page)).toBe('Try again');
    await context.close();
  });

  test('another page has the focus on its heading; filters and what is read again leave it', async () => {
    const { page, complaints, context } = await browser.open(holdfast.url, '/');
    await logIn(page, ADMIN_API_KEY);
    const isAt = (heading: string): Promise<unknown> =>
      eventually(
        `the focus is on ${heading}`,
        async () =>
          (await page.evaluate('document.activeElement.localName')) === 'h1' &&
          (await focused(page)) === heading,
      );
    await isAt('Overview');
    await page.getByRole('link', { name: 'Budgets' }).press('Enter');
    await isAt('Budgets');
    await page.getByLabel('Scope contains').fill('tenant');
    await page.waitForURL(/search=tenant/);
    await page.getByText('1 row', { exact: true }).waitFor();
    expect(await page.getByLabel('Scope contains').evaluate((input) => input.matches(':focus'))).toBe(true);
    const scope = `tenant:${tenant.id}`;
    await page.getByRole('link', { name: scope }).press('Enter');
    await isAt(scope);
    const button = page.getByRole('button', { name: 'Freeze' });
    await button.focus();
    expectStatus(await holdfast.reserve(tenant, 2, { ttl_ms: 3_600_000 }), 200);
    await page.getByText('91', { exact: true }).first().waitFor();
    expect(await focused(page)).toBe('Freeze');
    await page.goBack();
    await isAt('Budgets');
    await page.reload();
    await page.getByText('1 row', { exact: true }).waitFor();
    expect(await page.evaluate('document.activeElement.localName')).toBe('body');
    expect(complaints).toEqual([]);
    await context.close();
  });

  test('a panel or a dialog that is closed gives the focus back to what had it before', async () => {
    for (const [path, opener] of [
      [`/events?tenant_id=${tenant.id}`, 'budget.created'],
      ['/budgets', 'Create budget'],
    ] as const) {
      const { page, context } = await browser.enter(holdfast.url, path);
      await page.getByRole('button', { name: opener }).press('Enter');
      await page.locator('[role=dialog] :focus').waitFor();
      await page.keyboard.press('Escape');
      await eventually('the focus is back', async () => (await focused(page)) === opener);
      await context.close();
    }
    const { page, context } = await browser.enter(holdfast.url, `/budgets/TOKENS?scope=tenant:${tenant.id}`);
    await page.getByRole('link', { name: 'Created' }).press('Enter');
    await page.locator('[role=dialog] :focus').waitFor();
    await page.keyboard.press('Escape');
    await eventually('the focus is on the heading', async () => (await focused(page)) === 'Events');
    await context.close();
  });

  test('a table is shaded at the edge beyond which it goes on, in light and dark colours', async () => {
    for (const colorScheme of ['light', 'dark'] as const) {
      const settings = { colorScheme, viewport: { width: 520, height: 860 } };
      const { page, context } = await browser.enter(holdfast.url, '/webhooks', settings);
      const region = page.getByRole('region', { name: 'Subscriptions' });
      await region.waitFor();
      await eventually('the right edge', async () => (await shaded(page, region)).join() === 'right');
      await region.focus();
      await page.keyboard.press('ArrowRight');
      await eventually('both', async () => (await shaded(page, region)).join() === 'left,right');
      await eventually('the end', async () => {
        await page.keyboard.press('ArrowRight');
        return (await shaded(page, region)).join() === 'left';
      });
      await page.setViewportSize({ width: 1280, height: 860 });
      await eventually('none', async () => (await shaded(page, region)).length === 0);
      await context.close();
    }
  });

  test('times have 24 hours where the language of the browser has 12, too', async () => {
    const budget = `/budgets/TOKENS?scope=tenant:${tenant.id}`;
    const { page, context } = await browser.enter(holdfast.url, budget, { locale: 'en-US' });
    await page.getByText('to Jan 1, 2100, 01:00:00. The next one').waitFor();
    await page.goto(`${holdfast.url}/console/reservations/${held}`);
    await page.getByText('Lease ends').waitFor();
    await page.locator('time').nth(2).waitFor();
    const times = await page.locator('time').allInnerTexts();
    expect(times.filter((time) => !/^[A-Z][a-z]+ \d+,( \d{4},)? \d\d:\d\d:\d\d$/.test(time))).toEqual([]);
    expect(times).toHaveLength(3);
    await page.goto(`${holdfast.url}/console/expirations?last=24h`);
    const histogram = page.getByRole('img', { name: /^0 from/ });
    expect(await histogram.getAttribute('aria-label')).toMatch(
      /^0 from .*, \d\d:\d\d:\d\d to .*, \d\d:\d\d:\d\d$/,
    );
    await context.close();
  });
});

/** The edges of a table that do not look like its middle, above the text of its head. */
async function shaded(page: Page, region: Locator): Promise<string[]> {
  const { x, y, width } = (await region.boundingBox()) as { x: number; y: number; width: number };
  const [middle, left, right] = await Promise.all(
    [width / 2, 0, width - 8].map(async (from) => {
      const clip = { x: Math.ceil(x + from), y: Math.ceil(y) + 8, width: 7, height: 2 };
      return (await page.screenshot({ clip, animations: 'disabled' })).toString('base64');
    }),
  );
  return [...(left === middle ? [] : ['left']), ...(right === middle ? [] : ['right'])];
}

const focused = (page: Page): Promise<string> => page.evaluate<string>('document.activeElement.innerText');
