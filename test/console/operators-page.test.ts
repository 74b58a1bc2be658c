import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { VIEWER_API_KEY } from '../support/console-client.js';
import {
  ConsoleBrowser,
  describeInBrowser,
  WIDE_AND_NARROW,
  WITHOUT_BROWSER,
} from '../support/console-browser.js';
import { expectStatus, Holdfast, newTenantId } from '../support/holdfast.js';
import { type Store, startStore } from '../support/store.js';

describeInBrowser(`the operators' page in a browser${WITHOUT_BROWSER}`, () => {
  const browser = new ConsoleBrowser();
  let store: Store;
  let holdfast: Holdfast;

  beforeAll(async () => {
    store = await startStore();
    holdfast = await Holdfast.start({ REDIS_URL: store.url, VIEWER_API_KEY });
  });
  afterAll(async () => {
    await holdfast?.stop();
    await store?.stop();
  });

  const statusWith = async (key: string, path = '/v1/admin/tenants'): Promise<number> =>
    (await holdfast.call('GET', path, { headers: { 'x-admin-api-key': key } })).status;

  test('an admin creates an operator, rotates its key and revokes it', async () => {
    const keys: string[] = [];
    await browser.visit(
      holdfast.url,
      '/operators',
      'No operators here',
      async (page) => {
        const dialog = page.getByRole('dialog');
        const copyKey = async (): Promise<void> => {
          keys.push(await dialog.getByRole('status').filter({ hasText: 'opr_' }).innerText());
          await dialog.getByRole('button', { name: 'I have copied it' }).click();
        };
        await page.getByRole('button', { name: 'Create operator' }).click();
        await dialog.getByText('A name of lower-case letters').waitFor();
        await dialog.getByLabel('Name').fill('alice@example.com');
        await dialog.getByLabel('Role').selectOption('Viewer');
        await dialog.getByText('change nothing').waitFor();
        await dialog.getByRole('button', { name: 'Create operator' }).click();
        await copyKey();
        const row = page.getByRole('row').filter({ hasText: 'alice@example.com' });
        await row.getByText('Active').waitFor();
        expect(await row.innerText()).toContain('never');
        expect(await statusWith(keys[0] as string)).toBe(200);

        await row.getByRole('button', { name: 'Change' }).click();
        await dialog.getByText('Nothing changes yet').waitFor();
        await dialog.getByLabel('Role').selectOption('Operator');
        await dialog.getByRole('row', { name: 'Role Viewer Operator' }).waitFor();
        await dialog.getByRole('button', { name: 'Change the operator' }).click();
        await row.getByText('Operator', { exact: true }).waitFor();

        await row.getByRole('button', { name: 'Change' }).click();
        await dialog.getByLabel('Tenants').fill('acme, team-*');
        await dialog.getByRole('row', { name: 'Tenants none acme, team-*' }).waitFor();
        await dialog.getByRole('button', { name: 'Change the operator' }).click();
        await row.getByText('of acme, team-*').waitFor();

        await row.getByRole('button', { name: 'Rotate' }).click();
        await dialog.getByRole('button', { name: 'Create its new key' }).click();
        await copyKey();
        await row.getByText('the key before').waitFor();
        expect(await Promise.all(keys.map((key) => statusWith(key)))).toEqual([200, 200]);

        await row.getByRole('button', { name: 'Revoke' }).click();
        await dialog.getByLabel('Reason').fill('left the company');
        await dialog.getByRole('button', { name: 'Revoke' }).click();
        await row.getByText('left the company').waitFor();
        expect(await Promise.all(keys.map((key) => statusWith(key)))).toEqual([401, 401]);
        expect(await row.getByRole('button').count()).toBe(0);
        await row.getByRole('link', { name: 'Audit log' }).click();
        await page.getByRole('heading', { name: 'Audit log' }).waitFor();
        expect(new URL(page.url()).searchParams.get('key_id')).toBe('operator:alice@example.com');
        await page.getByText('GET /v1/admin/tenants').or(page.getByText('listTenants')).first().waitFor();
        await page.goBack();
        await row.waitFor();
      },
      { looks: WIDE_AND_NARROW },
    );
    expect(new Set(keys).size).toBe(2);
  });

  test('an operator sees them, but no button, and is named where it acted', async () => {
    const made = await holdfast.admin('POST', '/ops/operators', { name: 'bob', role: 'operator' });
    const key = expectStatus(made, 201).key_secret as string;
    const tenantId = newTenantId();
    expectStatus(
      await holdfast.call('POST', '/v1/admin/tenants', {
        headers: { 'x-admin-api-key': key },
        body: { tenant_id: tenantId, name: 'Acme' },
      }),
      201,
    );
    await browser.visit(
      holdfast.url,
      '/operators',
      'Operators',
      async (page) => {
        const row = page.getByRole('row').filter({ hasText: 'bob' });
        await row.waitFor();
        expect(await row.getByRole('button').count()).toBe(0);
        expect(await page.getByRole('button', { name: 'Create operator' }).count()).toBe(0);
        await page.getByText('Signed in as bob').waitFor();
      },
      { key },
    );
    await browser.visit(holdfast.url, `/events?tenant_id=${tenantId}`, 'bob', async (page) => {
      await page.getByRole('cell', { name: 'bob', exact: true }).waitFor();
    });
    await browser.visit(
      holdfast.url,
      '/operators',
      'bob',
      async (page) => {
        await page.getByText('Read only').waitFor();
        expect(await page.getByRole('button', { name: 'Create operator' }).count()).toBe(0);
      },
      { key: VIEWER_API_KEY },
    );
  });

  test('an operator of some tenants sees those, and no page of the whole deployment', async () => {
    const tenants = ['team-one', 'elsewhere'];
    for (const id of tenants) {
      expectStatus(await holdfast.admin('POST', '/v1/admin/tenants', { tenant_id: id, name: id }), 201);
    }
    const made = await holdfast.admin('POST', '/ops/operators', {
      name: 'carol',
      role: 'operator',
      tenants: ['team-*'],
    });
    await browser.visit(
      holdfast.url,
      '/',
      'This page is of the whole deployment',
      async (page) => {
        await page.getByText('Only for team-*', { exact: true }).waitFor();
        const navigation = page.getByRole('navigation', { name: 'Pages' });
        expect(await navigation.getByRole('link', { name: 'Overview' }).count()).toBe(0);
        expect(await navigation.getByRole('link', { name: 'Events' }).count()).toBe(1);
        await page.getByRole('link', { name: 'Go to the tenants' }).click();
        await page.getByRole('link', { name: 'team-one' }).first().waitFor();
        expect(await page.getByText('elsewhere').count()).toBe(0);
        await navigation.getByRole('link', { name: 'Refused requests' }).click();
        await page.getByText('No such refusals').waitFor();
        await navigation.getByRole('link', { name: 'Reservations' }).click();
        await page.getByText('Nothing is held').waitFor();
      },
      { key: expectStatus(made, 201).key_secret as string },
    );
  });
});
