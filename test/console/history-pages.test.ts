import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { eventLogKey } from '../../src/redis/keyspace.js';
import { VIEWER_API_KEY } from '../support/console-client.js';
import { CUSTOM_EVENT_TYPES, EVENT_TYPES } from '../../src/ledger/event-types.js';
import {
  ATTACK,
  ConsoleBrowser,
  describeInBrowser,
  expectAccessible,
  WIDE_AND_NARROW,
  WITHOUT_BROWSER,
} from '../support/console-browser.js';
import { eventually } from '../support/eventually.js';
import { ADMIN_API_KEY, expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';
import { type RedisServer, startRedis } from '../support/redis-server.js';
import { StoredHolds } from '../support/stored-holds.js';

const MINUTE_MS = 60_000;
/** 2^53 + 1, which a double would round. */
const LARGE = '9007199254740993';
/**
 * A formula that a spreadsheet would run. No current version stores such a reason, but the export must not
 * rely on that.
 */
const FORMULA = '=HYPERLINK("http://x")';

describeInBrowser(`the pages of the history${WITHOUT_BROWSER}`, () => {
  const browser = new ConsoleBrowser();
  let redis: RedisServer;
  let stored: StoredHolds;
  let holdfast: Holdfast;
  let tenant: TestTenant;
  let expired: string;
  /** The id of the request that funded the budget, and with it of its event and its audit row. */
  let request: string;
  let funded: string;
  let row: string;

  beforeAll(async () => {
    redis = await startRedis();
    stored = new StoredHolds(redis.url);
    holdfast = await Holdfast.start({ REDIS_URL: redis.url, VIEWER_API_KEY });
    tenant = await holdfast.createTenant();
    await storeExpirations();
    await holdfast.createBudget(tenant, '', 100);
    expired = await holdfast.hold(tenant, 7);
    await stored.expireIn(expired, -60_000);
    await holdfast.admin('GET', `/ops/reservations/${expired}`);
    await fund();
  });

  afterAll(async () => {
    stored?.close();
    await holdfast?.stop();
    await redis?.stop();
  });

  /**
   * Stores 150 expirations at intervals of a minute, up to two hours old, and one of a large amount. Nothing
   * else is older.
   */
  async function storeExpirations(): Promise<void> {
    const { pipeline, tag } = { pipeline: stored.redis.pipeline(), tag: stored.tagOfTenant(tenant.id) };
    const log = eventLogKey(tag);
    const first = Date.now() - 160 * MINUTE_MS;
    await stored.redis.del(log);
    for (let index = 0; index < 150; index += 1) {
      const at = first + index * MINUTE_MS;
      const facts = {
        ty: 'reservation.expired',
        tn: tenant.id,
        ac: 'system',
        expired_at: at,
        reason: FORMULA,
      };
      const amount = {
        unit: 'TOKENS',
        estimated_amount: LARGE,
        reservation_id: `rsv_${tag.slice(2, 4)}${index}`,
      };
      pipeline.xadd(log, `${at}-*`, ...Object.entries({ ...facts, ...amount }).flat());
    }
    await pipeline.exec();
  }

  /** Funds the budget. Every text that a client can give to a change is an attack. */
  async function fund(): Promise<void> {
    const answer = await holdfast.call(
      'POST',
      `/v1/admin/budgets/fund?scope=tenant:${tenant.id}&unit=TOKENS&tenant_id=${tenant.id}`,
      {
        headers: { 'x-admin-api-key': ADMIN_API_KEY, 'user-agent': ATTACK },
        body: {
          operation: 'CREDIT',
          amount: { unit: 'TOKENS', amount: BigInt(LARGE) },
          reason: ATTACK,
          idempotency_key: ATTACK,
          metadata: { note: ATTACK, [ATTACK]: { deep: [ATTACK, 1] } },
        },
      },
    );
    expectStatus(answer, 200);
    request = answer.headers.get('x-request-id') as string;
    const { events } = expectStatus(
      await holdfast.admin('GET', `/v1/admin/events?request_id=${request}&event_type=budget.funded`),
      200,
    );
    const { logs } = expectStatus(
      await holdfast.admin('GET', `/v1/admin/audit/logs?request_id=${request}`),
      200,
    );
    await holdfast.admin('GET', `/v1/admin/tenants/${encodeURIComponent(ATTACK)}`);
    [funded, row] = [events[0].event_id as string, logs[0].log_id as string];
  }

  const visit = (
    path: string,
    text: string,
    use?: (page: Page) => Promise<void>,
    settings?: Parameters<ConsoleBrowser['visit']>[4],
  ): Promise<void> => browser.visit(holdfast.url, path, text, use, settings);

  test('show in light colours on a wide screen, and in dark ones on a narrow one', async () => {
    for (const [path, text] of [
      [`/expirations?last=24h&tenant=${tenant.id}`, '151 expired'],
      [`/events?tenant_id=${tenant.id}&event=${funded}`, ATTACK],
      [`/audit?tenant_id=${tenant.id}&row=${row}`, ATTACK],
    ] as const) {
      await visit(path, text, undefined, { looks: WIDE_AND_NARROW });
    }
  });

  test('expirations are counted exactly, zoomed into with the mouse and the keyboard, and paged', async () => {
    await visit(`/expirations?last=24h&tenant=${tenant.id}`, '151 expired', async (page) => {
      await page.getByText('100 rows on this page').waitFor();
      await page.getByRole('button', { name: 'Next page' }).click();
      await page.getByText('51 rows, the last page').waitFor();
      await page.getByRole('link', { name: expired }).waitFor();
      await page.goBack();
      await page.getByText('100 rows on this page').waitFor();

      const histogram = page.getByRole('img', { name: /^151 from/ });
      await histogram.scrollIntoViewIfNeeded();
      const bars = await histogram.boundingBox();
      const { x, y, width } = bars as NonNullable<typeof bars>;
      await page.mouse.move(x + width / 2, y + 20);
      await page.mouse.down();
      await page.mouse.move(x + width - 1, y + 20);
      await page.mouse.up();
      await page.waitForURL(/from=/);
      await page.getByText('151 expired').waitFor();
      await page.getByRole('button', { name: 'Later' }).focus();
      const from = page.getByRole('textbox', { name: 'From' });
      const before = await from.inputValue();
      await page.keyboard.press('Enter');
      // The next step starts from the window that is shown.
      await eventually('a later window is shown', async () => (await from.inputValue()) !== before);
      await page.getByRole('button', { name: 'Later' }).press('Enter');
      await page.getByText('Nothing expired here').waitFor();
    });
  });

  test('expirations are exported page by page, for viewers, too, and an export can be canceled', async () => {
    await visit(
      `/expirations?last=24h&tenant=${tenant.id}`,
      '151 expired',
      async (page) => {
        const csv = await exported(page, 'CSV');
        expect(csv).toHaveLength(152);
        expect(csv[1]).toContain(`,TOKENS,${LARGE},`);
        expect(csv[1]).toContain(`,"'=HYPERLINK(""http://x"")",`);
        const ndjson = await exported(page, 'NDJSON');
        expect(ndjson).toHaveLength(151);
        expect(ndjson[0]).toContain(`"amount":${LARGE},`);
        expect(JSON.parse(ndjson.at(-1) as string)).toMatchObject({ reservation_id: expired, amount: 7 });
        await page.route(/limit=1000/, async (route) => {
          await page.getByRole('progressbar', { name: 'Export' }).waitFor();
          await page.getByRole('button', { name: 'Cancel' }).click();
          await route.continue();
        });
        await page.getByRole('button', { name: 'Export CSV' }).click();
        await page.getByRole('button', { name: 'Export CSV' }).waitFor();
      },
      { key: VIEWER_API_KEY },
    );
  });

  test('events lead to the audit rows of their request, and those lead back', async () => {
    await visit(`/events?tenant_id=${tenant.id}`, 'the last page', async (page) => {
      await page.getByLabel('Category').selectOption('budget');
      await page.waitForURL(/category=budget/);
      await page.getByLabel('Type').selectOption('budget.funded');
      await page.getByText('1 row, the last page').waitFor();
      await expectAccessible(page);
      await page.getByRole('cell', { name: `an operator, on behalf of ${tenant.id}`, exact: true }).waitFor();
      await page.getByRole('button', { name: 'budget.funded' }).press('Enter');
      const dialog = page.getByRole('dialog');
      await dialog.getByText(`an operator, on behalf of ${tenant.id}`).waitFor();
      await dialog.getByText('9,007,199,254,741,093 tokens').first().waitFor();
      expect(await dialog.getByRole('link', { name: `tenant:${tenant.id}` }).getAttribute('href')).toContain(
        '/console/budgets/TOKENS',
      );
      await dialog.getByRole('link', { name: 'its audit rows' }).first().click();
      await page.waitForURL(/audit\?request_id=/);
      await page.getByRole('button', { name: 'fundBudget' }).press('Enter');
      await dialog.getByText(ATTACK).first().waitFor();
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
      await page.getByLabel('Answer').selectOption('4xx');
      await page.getByText('No such rows').waitFor();
      await page.getByRole('button', { name: 'Clear filters' }).click();
      await page.getByRole('cell', { name: ATTACK, exact: true }).waitFor();
      await page.getByRole('button', { name: 'listAuditLogs' }).first().waitFor();
      await page.goto(`${holdfast.url}/console/audit?row=${row}`);
      await dialog.getByRole('link', { name: 'its events' }).first().click();
      await page.waitForURL(/events\?request_id=/);
      await page.getByRole('button', { name: 'budget.funded' }).waitFor();
    });
  });

  test('a reservation leads to the event of its end', async () => {
    await visit(`/reservations/${expired}`, 'Told by the event reservation.expired', async (page) => {
      await page.getByRole('link', { name: /^evt_/ }).click();
      const dialog = page.getByRole('dialog', { name: 'reservation.expired' });
      await dialog.getByText(expired).first().waitFor();
    });
  });

  test('a part of what a reservation was charged is refunded, with a reason, and never more than is left', async () => {
    const id = await holdfast.hold(tenant, 9);
    expectStatus(await holdfast.commit(tenant, id, 8), 200);
    await visit(`/reservations/${id}`, 'COMMITTED', async (page) => {
      await page.getByRole('button', { name: 'Refund' }).click();
      const dialog = page.getByRole('dialog');
      const refund = dialog.getByRole('button', { name: 'Refund' });
      await dialog.getByLabel('Reason').fill('billed twice');
      await dialog.getByLabel('Amount').fill('9');
      await dialog.getByText('Between 1 and 8 can be refunded').waitFor();
      expect(await refund.isDisabled()).toBe(true);
      await dialog.getByLabel('Amount').fill('3');
      await refund.click();
      // After what its end returned, so that nobody takes that for a part of the refund.
      await page
        .getByRole('listitem')
        .filter({ hasText: /1 returned to .*Refunded 3/ })
        .waitFor();
      const { end } = expectStatus(await holdfast.admin('GET', `/ops/reservations/${id}`), 200);
      expect(end.refunded).toEqual({ unit: 'TOKENS', amount: 3 });
    });
  });

  test('the types of events that can be chosen are those of the server', async () => {
    await visit('/events', 'Category', async (page) => {
      const types = page.getByLabel('Type').getByRole('option');
      expect(await types.allInnerTexts()).toEqual(['All', ...EVENT_TYPES, ...CUSTOM_EVENT_TYPES]);
      await page.getByLabel('Category').selectOption('System');
      await page.getByLabel('Type').selectOption('custom.budget_template.created');
      await page.waitForURL(/event_type=custom.budget_template.created/);
    });
  });
});

async function exported(page: Page, format: string): Promise<string[]> {
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: `Export ${format}` }).click();
  return readFileSync(await (await saved).path(), 'utf8')
    .trimEnd()
    .split(/\r?\n/);
}
