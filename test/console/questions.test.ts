import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { HOLDFAST_VERSION } from '../../src/config/index.js';
import { RedisService } from '../../src/redis/index.js';
import { publishCharges } from '../support/charge-files.js';
import { ConsoleBrowser, describeInBrowser, WITHOUT_BROWSER } from '../support/console-browser.js';
import {
  type Answer,
  expectRefusal,
  expectStatus,
  Holdfast,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { type RedisServer, startRedis } from '../support/redis-server.js';
import { StoredHolds } from '../support/stored-holds.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';
import { allowLoopback, endedDeliveries, subscribe } from '../webhooks/dispatching.js';

const DAY_MS = 86_400_000;
/** Whoever is woken up has no patience for more. */
const MOST_ACTIONS = 3;

/** The questions of three o'clock in the morning, each asked from the overview. */
describeInBrowser(`the console answers${WITHOUT_BROWSER}`, () => {
  const browser = new ConsoleBrowser();
  let redis: RedisServer;
  let stored: StoredHolds;
  let holdfast: Holdfast;
  let receiver: WebhookReceiver;
  let archive: string;
  let tenant: TestTenant;
  let denied: Answer;
  let stuck: string;
  /** When it was charged today. */
  let now: number;

  beforeAll(async () => {
    redis = await startRedis();
    stored = new StoredHolds(redis.url);
    archive = mkdtempSync(join(tmpdir(), 'questions-'));
    // Without a sweeper, an overdue hold stays.
    holdfast = await Holdfast.start({
      REDIS_URL: redis.url,
      ARCHIVE_DIR: archive,
      HOLDFAST_ROLES: 'api,dispatcher',
      RECORD_ACTIVITY: 'true',
      webhookPollMs: 20,
    });
    receiver = await WebhookReceiver.start();
    receiver.react = (response) => response.writeHead(503).end('no disk');
    await allowLoopback(holdfast);
    tenant = await holdfast.createTenant({ name: 'Acme' });
    await holdfast.createBudget(tenant, '', 1000);
    const failing = await subscribe(holdfast, tenant, `${receiver.url}/in`, {
      name: 'billing',
      event_types: ['reservation.denied'],
      retry_policy: { max_retries: 0 },
      disable_after_failures: 100,
    });
    const fund = `/v1/admin/budgets/fund?scope=tenant:${tenant.id}&unit=TOKENS&tenant_id=${tenant.id}`;
    expectStatus(
      await holdfast.admin('POST', fund, {
        operation: 'CREDIT',
        amount: { unit: 'TOKENS', amount: 500 },
        reason: 'for the night',
        idempotency_key: 'top-up',
      }),
      200,
    );
    denied = await holdfast.reserve(tenant, 5000);
    expectRefusal(denied, 409, 'BUDGET_EXCEEDED');
    await endedDeliveries(holdfast, failing, 1);
    stuck = await holdfast.hold(tenant, 7);
    await stored.expireIn(stuck, -60_000);
    const charge = (user: string, model: string, charged: number, recordedAt: number): Json => ({
      tenant: tenant.id,
      scope: `tenant:${tenant.id}`,
      recorded_at: recordedAt,
      record_id: `rsv_${user}`,
      action_kind: 'llm.completion',
      action_name: model,
      dimensions: { user_id: user },
      charged,
    });
    now = Date.now();
    await publishCharges(
      archive,
      [
        charge('ana', 'gpt-9', 100, now - DAY_MS),
        charge('ben', 'gpt-9-mini', 50, now - DAY_MS),
        charge('cem', 'gpt-9', 400, now),
      ] as never,
      holdfast.app.get(RedisService).deployment.id,
    );
  });

  afterAll(async () => {
    await holdfast?.stop();
    await receiver?.stop();
    stored?.close();
    await redis?.stop();
    rmSync(archive, { recursive: true, force: true });
  });

  /** Asks from the overview. Each of `acts` is one action: a click, a choice or a search. */
  async function answers(
    acts: readonly ((page: Page) => Promise<unknown>)[],
    answer: (page: Page) => Promise<unknown>,
  ): Promise<void> {
    expect(acts.length).toBeLessThanOrEqual(MOST_ACTIONS);
    await browser.visit(holdfast.url, '/', 'Ready for traffic', async (page) => {
      for (const act of acts) {
        await act(page);
      }
      await answer(page);
    });
  }

  const goTo =
    (name: string) =>
    (page: Page): Promise<void> =>
      page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true }).click();
  const follow =
    (name: string | RegExp) =>
    (page: Page): Promise<void> =>
      page.getByRole('main').getByRole('link', { name }).first().click();
  const search =
    (text: string) =>
    async (page: Page): Promise<void> => {
      await page.keyboard.press('/');
      await page.keyboard.type(text);
      await page.keyboard.press('Enter');
    };

  test('who spent yesterday, and on which model', async () => {
    const day = new Intl.DateTimeFormat('en-GB', {
      weekday: 'short',
      day: 'numeric',
      month: 'short',
      timeZone: 'Europe/Berlin',
    }).format(now - DAY_MS);
    await answers(
      [
        goTo('Usage'),
        (page) => page.getByRole('link', { name: day }).click(),
        (page) => page.getByLabel('By', { exact: true }).selectOption('User (user_id)'),
      ],
      async (page) => {
        await page.getByRole('row', { name: /^ana 100 tokens / }).waitFor();
        const charges = page.getByRole('region', { name: 'The charges' });
        await charges.getByRole('row', { name: / rsv_ana .* gpt-9 100 tokens / }).waitFor();
        await charges.getByRole('row', { name: / rsv_ben .* gpt-9-mini 50 tokens / }).waitFor();
        expect(await charges.getByText('rsv_cem').count()).toBe(0);
      },
    );
  });

  test('why a request was refused', async () => {
    await answers([search(denied.headers.get('x-request-id') as string)], async (page) => {
      const panel = page.getByRole('dialog');
      await panel.getByText('BUDGET_EXCEEDED').first().waitFor();
      await panel
        .getByText(denied.body.message as string)
        .first()
        .waitFor();
    });
  });

  test('which holds are stuck', async () => {
    await answers(
      [
        (page) =>
          page.locator('dt', { hasText: 'Due, not yet expired' }).locator('+ dd').getByRole('link').click(),
      ],
      (page) => page.getByRole('link', { name: stuck }).waitFor(),
    );
  });

  test('who changed this budget', async () => {
    await answers([follow(`tenant:${tenant.id}`)], async (page) => {
      await page.getByText('for the night').first().waitFor();
    });
  });

  test('what the endpoint answered', async () => {
    await answers(
      [
        follow(`${receiver.url}/in`),
        (page) => page.getByRole('button', { name: 'reservation.denied' }).first().click(),
      ],
      (page) => page.getByLabel('The last answer').getByText('no disk', { exact: true }).waitFor(),
    );
  });

  test('whether the money lasts for this week', async () => {
    // 400 of what remains in six hours.
    await answers([], (page) =>
      page
        .getByText(/Runs out in about \d+ (?:h|min)/)
        .first()
        .waitFor(),
    );
  });

  test('whether Redis is safe', async () => {
    await answers([], async (page) => {
      const warnings = page.getByRole('list', { name: 'Warnings' });
      await warnings.getByText('no_memory_limit').waitFor();
      await warnings
        .getByText(/append-only|AOF/i)
        .first()
        .waitFor();
    });
  });

  test('whether the archive is complete', async () => {
    await answers([goTo('Usage')], (page) =>
      page
        .getByText(/Complete through|Nothing later is archived yet/)
        .first()
        .waitFor(),
    );
  });

  test('how late the sweeper is', async () => {
    await answers([], (page) =>
      page.getByRole('region', { name: 'How late holds expire' }).getByText('p99').waitFor(),
    );
  });

  test('what a restore takes', async () => {
    await answers([goTo('Restore and upgrade')], async (page) => {
      const facts = page.getByRole('region', { name: 'What runs' });
      await facts.getByText('external').waitFor();
      await facts.getByText('none since Redis started').waitFor();
      await facts.getByText('Without the log, only a dump can be restored').waitFor();
      const restore = page.getByRole('region', { name: 'Restore', exact: true });
      await restore.getByText('start Redis on a copy').waitFor();
      await restore.getByText('npm run verify').waitFor();
      await restore.getByText('what it has of after the copy is superseded').waitFor();
    });
  });

  test('what an upgrade means', async () => {
    await answers([goTo('Restore and upgrade')], async (page) => {
      await page.getByRole('region', { name: 'What runs' }).getByText(HOLDFAST_VERSION).waitFor();
      const upgrade = page.getByRole('region', { name: 'Upgrade', exact: true });
      await upgrade.getByText('No downtime with two instances or more').waitFor();
      await upgrade.getByText('helm upgrade holdfast').waitFor();
    });
  });
});
