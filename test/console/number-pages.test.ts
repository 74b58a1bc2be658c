import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { ConsoleBrowser, describeInBrowser, WITHOUT_BROWSER } from '../support/console-browser.js';
import { expectStatus, Holdfast, type Json, type TestTenant } from '../support/holdfast.js';
import { type RedisServer, startRedis } from '../support/redis-server.js';

/** 12,345,678.90 dollars and one microcent. */
const DOLLARS = 1_234_567_890_000_001n;
const EXACT = 9_007_199_254_740_993n;

describeInBrowser(`numbers${WITHOUT_BROWSER}`, () => {
  const browser = new ConsoleBrowser();
  let redis: RedisServer;
  let holdfast: Holdfast;
  let tenant: TestTenant;
  let reservation: Json;

  beforeAll(async () => {
    redis = await startRedis();
    holdfast = await Holdfast.start({ REDIS_URL: redis.url });
    tenant = await holdfast.createTenant();
    await holdfast.createBudget(tenant, '', DOLLARS, { unit: 'USD_MICROCENTS' });
    const overdraft = (amount: number): Record<string, unknown> => ({
      overdraft_limit: { unit: 'TOKENS', amount },
    });
    await holdfast.createBudget(tenant, '', 100, overdraft(10));
    const metadata = { exact: EXACT, pi: 3.141592653589793, third: 3.3333333333333335 };
    reservation = expectStatus(
      await holdfast.reserve(tenant, 100, { metadata, overage_policy: 'ALLOW_WITH_OVERDRAFT' }),
      200,
    );
    expectStatus(await holdfast.commit(tenant, reservation.reservation_id as string, 110), 200);
    const path = `/v1/admin/budgets?scope=tenant:${tenant.id}&unit=TOKENS`;
    expectStatus(await holdfast.admin('PATCH', path, overdraft(3)), 200);
  });

  afterAll(async () => {
    await holdfast?.stop();
    await redis?.stop();
  });

  test('with 16 digits and more, before and after the point, break no page', async () => {
    const { events } = expectStatus(
      await holdfast.admin('GET', `/v1/admin/events?tenant_id=${tenant.id}`),
      200,
    ) as { events: Json[] };
    const shares = events.map(({ data }) => data?.debt_utilization as unknown);
    expect(shares).toContain(3.3333333333333335);
    await browser.visit(holdfast.url, '/events', 'the last page', async (page) => {
      await page.getByRole('button', { name: 'budget.over_limit_entered' }).first().press('Enter');
      await page.getByText('3.3333333333333335').waitFor();
    });
    const id = reservation.reservation_id as string;
    // Its metadata, which the page does not show, is in the answers that the page reads.
    await browser.visit(holdfast.url, `/reservations/${id}`, 'test-model');
  });

  /** What a page writes and takes, by language: the dollars above, a thousand tokens, and what is refused. */
  const LANGUAGES: Readonly<
    Record<
      string,
      { dollars: string; short: string; tokens: string; taken: Record<string, string>; refused: string[] }
    >
  > = {
    'en-US': {
      dollars: '$12,345,678.90000001',
      short: '$12,345,678.90',
      tokens: '1,000',
      taken: { '$1,000.5': '$1,000.50', '1.000': '$1.00', '1000': '$1,000.00', '12.5': '$12.50' },
      refused: ['12,5', '1,00', '10,00.5', '1.000,5', '1 000', '1,000,', '1.2.3', '-1', 'x', '1e3'],
    },
    'de-DE': {
      dollars: '$12.345.678,90000001',
      short: '$12.345.678,90',
      tokens: '1.000',
      taken: { '12,5': '$12,50', '1.000': '$1.000,00', '1.000,5': '$1.000,50', '1000': '$1.000,00' },
      refused: ['12.5', '1,000.5', '1.00', '1.000.5', '1 000'],
    },
    'fr-FR': {
      dollars: '$12 345 678,90000001',
      short: '$12 345 678,90',
      tokens: '1 000',
      taken: { '12,5': '$12,50', '1 000': '$1 000,00', '1000,5': '$1 000,50' },
      refused: ['12.5', '1.000', '10 00', '1,000.5'],
    },
    'en-IN': {
      dollars: '$1,23,45,678.90000001',
      short: '$1,23,45,678.90',
      tokens: '1,000',
      taken: { '1,00,000': '$1,00,000.00', '100000.5': '$1,00,000.50' },
      refused: ['100,000', '12,5'],
    },
  };
  /** The spaces of languages differ in width only. */
  const plain = (text: string | null): string => (text ?? '').replaceAll(/[\u00a0\u202f]/g, ' ');

  async function typedIn(page: Page, text: string): Promise<string> {
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Allocated').fill(text);
    const shown = dialog.getByRole('row', { name: /^Allocated none/ });
    await shown.or(dialog.getByText('is not an amount in')).first().waitFor();
    return (await shown.count()) > 0 ? plain(await shown.getByRole('cell').last().textContent()) : 'refused';
  }

  test.each(Object.keys(LANGUAGES))(
    'are written and read as in %s, and refused where it puts no separators',
    async (locale) => {
      const { dollars, short, tokens, taken, refused } = LANGUAGES[locale] as (typeof LANGUAGES)[string];
      const { page, complaints, context } = await browser.enter(holdfast.url, '/budgets', { locale });
      await page.getByText(`tenant:${tenant.id}`).first().waitFor();
      const [cell] = await page.locator('main td [title$=USD_MICROCENTS]').all();
      // As it is seen: what a column with more decimals would show is hidden.
      expect(plain((await cell?.innerText()) ?? '')).toBe(short);
      expect(plain((await cell?.getAttribute('title')) ?? '')).toBe(`${dollars}, ${DOLLARS} USD_MICROCENTS`);
      await page.getByRole('button', { name: 'Create budget' }).click();
      await page.getByRole('dialog').getByLabel('Scope').fill(`tenant:${tenant.id}/agent:a`);
      const read = async (texts: readonly string[]): Promise<Record<string, string>> => {
        const found: Record<string, string> = {};
        for (const text of texts) {
          found[text] = await typedIn(page, text);
        }
        return found;
      };
      const allTaken = { ...taken, [dollars]: dollars };
      expect(await read(Object.keys(allTaken))).toEqual(allTaken);
      expect(await read(refused)).toEqual(Object.fromEntries(refused.map((text) => [text, 'refused'])));
      await page.getByRole('dialog').getByLabel('Unit').selectOption('TOKENS');
      expect(await read([tokens, '1000', '0'])).toEqual({ [tokens]: tokens, '1000': tokens, '0': '0' });
      expect(await typedIn(page, dollars)).toBe('refused');
      expect(complaints).toEqual([]);
      await context.close();
    },
  );
});
