import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { AuditedRequests } from '../../src/audit/index.js';
import {
  ConsoleBrowser,
  describeInBrowser,
  WIDE_AND_NARROW,
  WITHOUT_BROWSER,
} from '../support/console-browser.js';
import {
  expectRefusal,
  expectStatus,
  Holdfast,
  type Json,
  newKey,
  type TestTenant,
} from '../support/holdfast.js';
import { type RedisServer, startRedis } from '../support/redis-server.js';

/** Types into the search box, from wherever the page is. A page that has just arrived may take the focus to its heading meanwhile. */
async function search(page: Page, text: string): Promise<void> {
  const box = page.getByRole('searchbox', { name: 'Search everything' });
  await page.keyboard.press('/');
  await page.keyboard.type(text);
  while ((await box.inputValue()) !== text) {
    await box.fill('');
    await box.blur();
    await page.keyboard.press('/');
    await page.keyboard.type(text);
  }
  await box.press('Enter');
}

/** Waits for a place, and until it has given the focus to its heading or to its panel. */
async function arrived(page: Page, url: string): Promise<void> {
  await page.waitForURL(url);
  await page.locator(/[?&](?:key|event|row)=/.test(url) ? '[role=dialog] :focus' : 'h1:focus').waitFor();
}

describeInBrowser(`the search${WITHOUT_BROWSER}`, () => {
  const browser = new ConsoleBrowser();
  let redis: RedisServer;
  let holdfast: Holdfast;
  let tenant: TestTenant;
  let other: TestTenant;
  let reservation: string;
  let set: Json;

  beforeAll(async () => {
    redis = await startRedis();
    holdfast = await Holdfast.start({ REDIS_URL: redis.url });
    tenant = await holdfast.createTenant({ name: 'Acme Corporation' });
    other = await holdfast.createTenant();
    await holdfast.createBudget(tenant, '', 100);
    await holdfast.createBudget(tenant, '/agent:alice', 100);
    await holdfast.createKey(tenant.id, { name: 'billing-backend' });
    reservation = await holdfast.hold(tenant, 7);
    await holdfast.hold(tenant, 8);
    const member = (amount: number, more = {}): object => ({
      idempotency_key: newKey(),
      subject: { tenant: tenant.id, ...more },
      action: { kind: 'llm.completion', name: 'n' },
      estimate: { unit: 'TOKENS', amount },
    });
    set = expectStatus(
      await holdfast.call('POST', '/v1/reservation-sets', {
        key: tenant.key,
        body: { reservations: [member(3), member(4, { agent: 'alice' })] },
      }),
      200,
    );
  });

  afterAll(async () => {
    await holdfast?.stop();
    await redis?.stop();
  });

  test('goes to what an id names, from every page, by the key /', async () => {
    const { keys } = expectStatus(
      await holdfast.admin('GET', `/v1/admin/api-keys?tenant_id=${tenant.id}&search=billing`),
      200,
    );
    const { events } = expectStatus(
      await holdfast.admin('GET', `/v1/admin/events?tenant_id=${tenant.id}&limit=1`),
      200,
    );
    const refused = await holdfast.call('GET', '/v1/balances', { key: 'cyc_live_nobody' });
    expectRefusal(refused, 401, 'UNAUTHORIZED');
    await browser.visit(holdfast.url, '/', 'Overview', async (page) => {
      for (const [text, path] of [
        [reservation, `/reservations/${reservation}`],
        [set.reservation_set_id, `/reservations/${set.reservations[0].reservation_id}`],
        [keys[0].key_id, `/tenants/${tenant.id}?key=${keys[0].key_id}`],
        ['billing-backend', `/tenants/${tenant.id}?key=${keys[0].key_id}`],
        [events[0].event_id, `/events?event=${events[0].event_id}`],
        [refused.headers.get('x-request-id'), `/requests?row=${refused.headers.get('x-request-id')}`],
        [other.id, `/tenants/${other.id}`],
        [`tenant:${tenant.id}/agent:alice`, `/budgets/TOKENS?scope=tenant%3A${tenant.id}%2Fagent%3Aalice`],
        ['alice', `/budgets/TOKENS?scope=tenant%3A${tenant.id}%2Fagent%3Aalice`],
      ] as [string, string][]) {
        await search(page, text);
        await arrived(page, `${holdfast.url}/console${path}`);
        await page.keyboard.press('Escape');
      }
    });
  });

  test('shows the other members of a set, which lead back', async () => {
    const ids = (set.reservations as Json[]).map(({ reservation_id: id }) => id as string);
    const [first, second] = ids as [string, string];
    await browser.visit(
      holdfast.url,
      `/search?q=${set.reservation_set_id}`,
      set.reservation_set_id as string,
      async (page) => {
        const others = page.getByRole('list', { name: 'Other members of the set' });
        await others.getByText('4 tokens').waitFor();
        await others.getByRole('link', { name: second }).click();
        await page.waitForURL(`${holdfast.url}/console/reservations/${second}`);
        await others.getByRole('link', { name: first }).waitFor();
      },
    );
  });

  test('shows what has a text in its name, and where else to look', async () => {
    await browser.visit(
      holdfast.url,
      '/budgets',
      'Budgets',
      async (page) => {
        // It is that of the tenant, although its budgets have it, too.
        await search(page, tenant.id);
        await arrived(page, `${holdfast.url}/console/tenants/${tenant.id}`);
        await search(page, other.id);
        await arrived(page, `${holdfast.url}/console/tenants/${other.id}`);
        await search(page, 'acme corp');
        await arrived(page, `${holdfast.url}/console/tenants/${tenant.id}`);
        await search(page, 't-');
        await page.getByRole('region', { name: 'Tenants' }).getByRole('link', { name: other.id }).waitFor();
        await page.getByRole('region', { name: 'Budgets' }).getByRole('link').first().waitFor();
      },
      { looks: WIDE_AND_NARROW },
    );
    await browser.visit(
      holdfast.url,
      '/search?q=nothing-at-all',
      'Nothing has this id or name',
      async (page) => {
        await page.getByRole('link', { name: 'Charges of the user with this id' }).click();
        await page.waitForURL(/\/usage\?dimension=user_id(%3D|=)nothing-at-all$/);
      },
    );
  });

  test('is not needed where a list is: arrows lead from row to row, and Enter opens one', async () => {
    await browser.visit(holdfast.url, '/reservations', reservation, async (page) => {
      await page.getByRole('region', { name: 'Live holds of all tenants' }).focus();
      await page.keyboard.press('ArrowDown');
      await page.keyboard.press('ArrowDown');
      await page.keyboard.press('ArrowUp');
      await page.keyboard.press('Enter');
      await page.waitForURL(/\/console\/reservations\/rsv_/);
      // Esc goes back.
      await page.locator('h1:focus').waitFor();
      await page.keyboard.press('Escape');
      await page.waitForURL(`${holdfast.url}/console/reservations`);
    });
  });

  test('finds the key of a leaked secret without sending it, and stops it, in three actions', async () => {
    const { page, complaints } = await browser.enter(holdfast.url, '/');
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    const sent: string[] = [];
    page.on('request', (request) => sent.push(request.url() + (request.postData() ?? '')));
    await search(page, other.key);
    await page.getByRole('button', { name: 'Revoke this key' }).click();
    // The page may read of the revocation before the instance that revokes has answered.
    const answered = page.waitForResponse((answer) => answer.request().method() === 'DELETE');
    await page
      .getByRole('dialog', { name: /^Revoke / })
      .getByRole('button', { name: 'Revoke' })
      .click();
    await answered;
    await page.getByText('REVOKED').first().waitFor();
    expect(sent.some((text) => /ops\/api-keys\/cyc_live_..%3A/.test(text))).toBe(true);
    expect(sent.filter((text) => text.includes(other.key))).toEqual([]);
    const refused = await holdfast.call('GET', '/v1/balances', { key: other.key });
    expectRefusal(refused, 401, 'UNAUTHORIZED');
    await holdfast.app.get(AuditedRequests).settled();
    // Whoever still tries it has no key any more.
    await page.getByRole('link', { name: 'those without a valid key' }).click();
    const request = refused.headers.get('x-request-id') as string;
    await page.getByRole('row', { name: new RegExp(`${request} no valid key`) }).waitFor();
    expect(complaints).toEqual([]);
  });
});
