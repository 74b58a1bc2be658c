import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  ConsoleBrowser,
  describeInBrowser,
  WIDE_AND_NARROW,
  WITHOUT_BROWSER,
} from '../support/console-browser.js';
import { expectStatus, Holdfast, type Json, type TestTenant } from '../support/holdfast.js';

const HOUR_MS = 3_600_000;
const inMs = (ms: number): string => new Date(Date.now() + ms).toISOString();

describeInBrowser(`the credits of a budget in the console${WITHOUT_BROWSER}`, () => {
  const browser = new ConsoleBrowser();
  let holdfast: Holdfast;
  let tenant: TestTenant;
  let path: string;

  beforeAll(async () => {
    holdfast = await Holdfast.start();
    tenant = await holdfast.createTenant();
    await holdfast.createBudget(tenant, '', 1000);
    path = `/budgets/TOKENS?scope=tenant:${tenant.id}`;
  });

  afterAll(() => holdfast?.stop());

  const credits = async (): Promise<Json[]> => {
    const query = `tenant_id=${tenant.id}&scope=tenant:${tenant.id}&unit=TOKENS`;
    return expectStatus(await holdfast.admin('GET', `/ops/budgets/credits?${query}`), 200).credits as Json[];
  };

  test('an operator grants a credit, moves its end and voids it', async () => {
    const { page, context } = await browser.enter(holdfast.url, path);
    await page.getByText('It has no credits').waitFor();
    await page.getByRole('button', { name: 'Grant a credit' }).click();
    const dialog = page.getByRole('dialog');
    const action = dialog.getByRole('button', { name: 'Grant the credit' });
    await dialog.getByLabel('Amount').fill('300');
    await dialog.getByText('A name is missing').waitFor();
    await dialog.getByLabel('Name').fill('Welcome');
    await dialog.getByLabel('Priority').fill('101');
    await dialog.getByText('A priority is 0 to 100').waitFor();
    await dialog.getByLabel('Priority').fill('10');
    await action.click();
    const row = page.getByRole('row').filter({ hasText: 'Welcome' });
    await row.getByText('Active').waitFor();
    expect(await credits()).toMatchObject([
      { name: 'Welcome', status: 'ACTIVE', priority: 10, remaining: { unit: 'TOKENS', amount: 300 } },
    ]);

    await row.getByRole('button', { name: 'Move the end' }).click();
    const soon = new Date(Date.now() + 48 * HOUR_MS);
    await dialog.getByLabel('Ends').fill(soon.toISOString().slice(0, 19));
    await dialog.getByRole('button', { name: 'Move the end' }).click();
    await page.getByText('Ends this week: 300 tokens of 1 credit').waitFor();
    expect((await credits())[0]?.['expires_at']).toBeDefined();

    await row.getByRole('button', { name: 'Void' }).click();
    await dialog.getByLabel('Reason').fill('by mistake');
    await dialog.getByRole('button', { name: 'Void the credit' }).click();
    await row.getByText('Voided').waitFor();
    expect(await credits()).toMatchObject([{ status: 'VOIDED', voided: { amount: 300 } }]);
    await context.close();
  });

  test('are shown in burn order, in all looks', async () => {
    const other = await holdfast.createTenant();
    await holdfast.createBudget(other, '', 1000);
    const scope = `tenant:${other.id}`;
    for (const [name, priority, ends] of [
      ['Prepaid', 50, undefined],
      ['Promotion', 10, inMs(24 * HOUR_MS)],
      ['Trial', 50, inMs(24 * 30 * HOUR_MS)],
    ] as const) {
      const body = {
        ...{ tenant_id: other.id, scope, unit: 'TOKENS', amount: { unit: 'TOKENS', amount: 200 } },
        ...{ name, priority, idempotency_key: name, category: 'offer', ...(ends && { expires_at: ends }) },
      };
      expectStatus(await holdfast.admin('POST', '/ops/budgets/credits', body), 201);
    }
    await browser.visit(
      holdfast.url,
      `/budgets/TOKENS?scope=${scope}`,
      'Promotion',
      async (page) => {
        const rows = page.getByRole('row').filter({ hasText: 'offer, priority' });
        const names = (await rows.allInnerTexts()).map((text) => /Prepaid|Promotion|Trial/.exec(text)?.[0]);
        expect(names).toEqual(['Promotion', 'Trial', 'Prepaid']);
        await page.getByText('Ends this week: 200 tokens of 1 credit').waitFor();
      },
      { looks: WIDE_AND_NARROW },
    );
    for (const place of ['/', `/tenants/${other.id}`]) {
      await browser.visit(
        holdfast.url,
        place,
        'Credits that end this week',
        async (page) => {
          const ending = page.getByRole('region', { name: 'Credits that end this week' }).locator('table');
          await ending.getByRole('row', { name: new RegExp(`^tenant:${other.id} 200 tokens 1 `) }).waitFor();
        },
        { looks: WIDE_AND_NARROW },
      );
    }
    await browser.visit(holdfast.url, `/tenants/${tenant.id}`, 'Policies', async (page) => {
      expect(await page.getByText('Credits that end this week').count()).toBe(0);
    });
  });
});
