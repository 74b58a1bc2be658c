import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import {
  ConsoleBrowser,
  describeInBrowser,
  expectAccessible,
  WITHOUT_BROWSER,
} from '../support/console-browser.js';
import { expectStatus, Holdfast, newTenantId } from '../support/holdfast.js';
import { TestProvider } from '../support/identity-provider.js';
import { type Store, startStore } from '../support/store.js';

const ACCOUNTS = {
  alice: { email: 'alice@example.com', email_verified: true, groups: ['platform'] },
  dave: { email: 'dave@example.com', groups: ['guests'] },
};

/** Passes the provider's own pages: who one is, and what the console may know. */
async function signInAs(page: Page, login: string): Promise<void> {
  await page.getByPlaceholder('Enter any login').fill(login);
  await page.getByPlaceholder('and password').fill('any');
  await page.getByRole('button', { name: 'Sign-in' }).click();
  await page.getByRole('button', { name: 'Continue' }).click();
}

describeInBrowser(`log-in by the identity provider in a browser${WITHOUT_BROWSER}`, () => {
  const browser = new ConsoleBrowser();
  let store: Store;
  let provider: TestProvider;
  let holdfast: Holdfast;

  beforeAll(async () => {
    store = await startStore();
    provider = await TestProvider.start();
    holdfast = await Holdfast.start({ REDIS_URL: store.url, ...provider.settings });
    await provider.serve({ url: holdfast.url, accounts: ACCOUNTS });
  });
  afterAll(async () => {
    await holdfast?.stop();
    await provider?.stop();
    await store?.stop();
  });

  /** The provider's own pages ask for a font, which they do not get. */
  const FONTS = 'https://fonts.googleapis.com';

  /** What the page complained about, but for the provider and its font. */
  const own = (complaints: readonly string[]): string[] =>
    complaints.filter((complaint) => !complaint.includes(provider.issuer) && !complaint.includes(FONTS));

  async function openConsole(path: string): ReturnType<ConsoleBrowser['open']> {
    const opened = await browser.open(holdfast.url, path);
    await opened.context.route(`${FONTS}/**`, (route) => route.abort());
    return opened;
  }

  test('an account opens the page that was asked for, under its name, changes something, and logs out everywhere', async () => {
    const { page, complaints, context } = await openConsole('/tenants?status=ACTIVE');
    await page.getByRole('button', { name: 'Continue with your account' }).waitFor();
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Continue with your account' }).click();
    await signInAs(page, 'alice');
    await page.getByRole('heading', { name: 'Tenants' }).waitFor();
    expect(page.url()).toBe(`${holdfast.url}/console/tenants?status=ACTIVE`);
    await page.getByText('Signed in as alice@example.com').waitFor();
    await expectAccessible(page);
    // Cookies are for the service alone.
    expect(await page.evaluate('document.cookie')).toBe('');

    const id = newTenantId();
    await page.getByRole('button', { name: 'Create tenant' }).click();
    await page.getByLabel('Id').fill(id);
    await page.getByLabel('Name').fill('Acme');
    await page.getByRole('dialog').getByRole('button', { name: 'Create tenant' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    const { logs } = expectStatus(
      await holdfast.admin('GET', `/v1/admin/audit/logs?operation=createTenant&resource_id=${id}`),
      200,
    );
    expect(logs).toMatchObject([{ key_id: 'oidc:alice@example.com#alice' }]);

    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByText('Do you want to sign-out').waitFor();
    await page.getByRole('button', { name: 'Yes, sign me out' }).click();
    await page.getByRole('heading', { name: 'Log in to the console' }).waitFor();
    // The provider asks again.
    await page.getByRole('button', { name: 'Continue with your account' }).click();
    await page.getByPlaceholder('Enter any login').waitFor();
    expect(own(complaints)).toEqual([]);
    await context.close();
  });

  test('an account without a role is told so, and can try again', async () => {
    const { page, complaints, context } = await openConsole('/');
    await page.getByRole('button', { name: 'Continue with your account' }).click();
    await signInAs(page, 'dave');
    await page.getByRole('alert').getByText('stands for no role here').waitFor();
    await expectAccessible(page);
    expect(await page.getByRole('button', { name: 'Continue with your account' }).isEnabled()).toBe(true);
    expect(own(complaints)).toEqual([]);
    await context.close();
  });
});
