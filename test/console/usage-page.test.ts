import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { RedisService } from '../../src/redis/index.js';
import { type Charge, publishCharges } from '../support/charge-files.js';
import {
  ConsoleBrowser,
  describeInBrowser,
  WIDE_AND_NARROW,
  WITHOUT_BROWSER,
} from '../support/console-browser.js';
import { ADMIN_API_KEY, expectStatus, Holdfast, type Json, type TestTenant } from '../support/holdfast.js';
import { expectPicture } from '../support/pictures.js';
import { type RedisServer, startRedis } from '../support/redis-server.js';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** The content of the README's picture, which must always be the same: a month of eight agents. */
function ofAcme(): Charge[] {
  const agents = [
    'researcher',
    'translator',
    'coder',
    'summarizer',
    'reviewer',
    'planner',
    'router',
    'critic',
  ];
  return Array.from({ length: 30 }, (_, day) =>
    agents.map((agent, place) => ({
      recorded_at: Date.parse('2026-01-01T12:00:00Z') + day * DAY_MS,
      tenant: 'acme',
      scope: `tenant:acme/agent:${agent}`,
      agent,
      unit: 'USD_MICROCENTS',
      action_kind: 'llm.completion',
      charged: Math.round((60 / (place + 2)) * (2 + Math.sin((day + 2 * place) / 3))) * 100_000_000,
    })),
  ).flat();
}

describeInBrowser(`usage and templates${WITHOUT_BROWSER}`, () => {
  const browser = new ConsoleBrowser();
  let redis: RedisServer;
  let holdfast: Holdfast;
  let archive: string;
  let tenant: TestTenant;

  beforeAll(async () => {
    redis = await startRedis();
    archive = mkdtempSync(join(tmpdir(), 'usage-page-'));
    holdfast = await Holdfast.start({ REDIS_URL: redis.url, ARCHIVE_DIR: archive });
    tenant = await holdfast.createTenant();
    await holdfast.createBudget(tenant, '', 900);
    await holdfast.createBudget(tenant, '/agent:quick', 100);
    const { keys } = expectStatus(
      await holdfast.admin('GET', `/v1/admin/api-keys?tenant_id=${tenant.id}`),
      200,
    );
    const keyId = keys[0].key_id as string;
    const now = Date.now();
    const of = { tenant: tenant.id, charged: 100 };
    await publishCharges(
      archive,
      [
        ...ofAcme(),
        // Twelve agents: two more than have a colour.
        ...Array.from({ length: 12 }, (_, agent) => ({
          ...of,
          recorded_at: now - 3 * DAY_MS,
          scope: `tenant:${tenant.id}/agent:a${agent}`,
          agent: `a${agent}`,
          action_kind: 'llm.completion',
          charged: 100 - agent,
        })),
        { ...of, recorded_at: now - 2 * DAY_MS, scope: `tenant:${tenant.id}`, action_kind: 'search' },
        {
          ...of,
          recorded_at: now - HOUR_MS,
          scope: `tenant:${tenant.id}/agent:quick`,
          agent: 'quick',
          action_kind: 'llm.completion',
          key_id: keyId,
          charged: 200,
        },
        ...[
          { at: '2026-03-02T11:00:00Z', charged: 1 },
          { at: '2026-03-03T11:00:00Z', charged: 10 },
        ].map(({ at, charged }) => ({
          recorded_at: Date.parse(at),
          tenant: 'zones',
          scope: 'tenant:zones',
          charged,
        })),
        ...[
          { user: 'ana', charged: 150 },
          { user: 'ben', charged: 50 },
        ].map(({ user, charged }) => ({
          ...of,
          recorded_at: now - 2 * DAY_MS,
          scope: `tenant:${tenant.id}`,
          action_name: 'gpt-9',
          dimensions: { user_id: user },
          charged,
        })),
        { ...of, recorded_at: now - DAY_MS, tenant: 'refunded', scope: 'tenant:refunded', charged: 90 },
        {
          ...of,
          recorded_at: now - DAY_MS,
          tenant: 'refunded',
          scope: 'tenant:refunded',
          source: 'REFUND',
          charged: -40,
        },
        {
          ...of,
          recorded_at: now - DAY_MS,
          tenant: 'other',
          scope: 'tenant:other',
          unit: 'CREDITS',
          charged: 7,
        },
      ],
      holdfast.app.get(RedisService).deployment.id,
    );
  });

  afterAll(async () => {
    await holdfast?.stop();
    await redis?.stop();
    rmSync(archive, { recursive: true, force: true });
  });

  test('what was refunded has a column where something was', async () => {
    const visit = (of: string, use: (page: Page) => Promise<void>): Promise<void> =>
      browser.visit(holdfast.url, `/usage?tenant_id=${of}&by=tenant&zone=UTC`, 'The largest', use);
    await visit('refunded', async (page) => {
      const largest = page.getByRole('region', { name: 'The largest' }).locator('table');
      expect(await largest.locator('th').allTextContents()).toContain('Refunded');
      await largest.getByRole('row', { name: /^refunded tenant 50 tokens 100\.0% 1 40 0 0 / }).waitFor();
      const days = page.getByRole('region', { name: 'Day by day' }).locator('table');
      await days.getByRole('row', { name: / 50 tokens 100\.0% 1 40 0 0 / }).waitFor();
    });
    await visit(tenant.id, async (page) => {
      await page.getByRole('columnheader', { name: 'Released' }).first().waitFor();
      expect(await page.getByRole('columnheader', { name: 'Refunded' }).count()).toBe(0);
    });
  });

  test('who spent it on what is shown by two keys, and each row leads on to what it is made of', async () => {
    const query = `tenant_id=${tenant.id}&unit=TOKENS`;
    await browser.visit(
      holdfast.url,
      `/usage?${query}&by=dimension%3Auser_id&and=action_name&zone=UTC`,
      'Charged a day, by user (user_id) and action or model',
      async (page) => {
        await page.getByRole('row', { name: /^ana gpt-9 150 tokens / }).waitFor();
        await page.getByRole('row', { name: /^ben gpt-9 50 tokens / }).waitFor();
        await page.getByRole('link', { name: 'gpt-9' }).first().click();
        await page.getByRole('row', { name: /^ana 150 tokens / }).waitFor();
        expect(new URL(page.url()).searchParams.get('action_name')).toBe('gpt-9');
        expect(await page.getByLabel('Action or model').inputValue()).toBe('gpt-9');
        await page.getByText('200 tokens in all').waitFor();
        await page.getByRole('button', { name: 'Clear filters' }).click();
        await page.waitForURL(`${holdfast.url}/console/usage`);
      },
      { looks: WIDE_AND_NARROW },
    );
  });

  test('spend is shown by day and by one key, with the largest, the rest and a file of it', async () => {
    await browser.visit(
      holdfast.url,
      `/usage?tenant_id=${tenant.id}&by=agent&unit=TOKENS`,
      'The 10 largest',
      async (page) => {
        const sum = Array.from({ length: 12 }, (_, agent) => 100 - agent).reduce(
          (one, other) => one + other,
          500,
        );
        await page.getByText(`${sum.toLocaleString('en-GB')} tokens in all`).waitFor();
        await page.getByRole('row', { name: /^quick 200 tokens / }).waitFor();
        await page.getByRole('row', { name: /^without one 300 tokens / }).waitFor();
        expect(await page.getByRole('region', { name: 'The largest' }).getByRole('row').count()).toBe(11);
        const dayByDay = page.getByRole('region', { name: 'Day by day' });
        expect(
          await dayByDay
            .getByRole('row')
            .filter({ has: page.getByRole('link') })
            .count(),
        ).toBe(3);
        await dayByDay
          .getByRole('row', { name: /no data: not archived yet$/ })
          .first()
          .waitFor();
        // Ten colours and all others on one day, one on each of two days.
        expect(await page.locator('.usage-chart rect[style]').count()).toBeGreaterThanOrEqual(11);
        await page.getByText(/Complete through|Nothing later is archived yet/).waitFor();
        const [download] = await Promise.all([
          page.waitForEvent('download'),
          page.getByRole('link', { name: 'Download CSV' }).click(),
        ]);
        expect(download.suggestedFilename()).toBe('usage.csv');
        const chunks: Buffer[] = [];
        for await (const chunk of await download.createReadStream()) {
          chunks.push(chunk as Buffer);
        }
        const lines = Buffer.concat(chunks).toString().trim().split('\r\n');
        expect(lines[0]).toMatch(/^day,agent,unit,charged/);
        expect(lines).toHaveLength(15);
      },
      { looks: WIDE_AND_NARROW },
    );
  });

  test('days are those of a zone that was chosen, and kept in the address', async () => {
    // Days of Kiritimati begin 14 hours before those of UTC.
    const query = 'tenant_id=zones&from=2026-03-02&to=2026-03-03&by=tenant';
    await browser.visit(
      holdfast.url,
      `/usage?${query}&zone=UTC`,
      '11 tokens in all',
      async (page) => {
        await page.getByRole('row', { name: /^Mon 2 Mar 1 tokens / }).waitFor();
        await page.getByRole('row', { name: /^Tue 3 Mar 10 tokens / }).waitFor();
        await page.getByLabel('Days of').selectOption('Pacific/Kiritimati');
        await page.getByText('1 tokens in all').waitFor();
        await page.getByRole('row', { name: /^Tue 3 Mar 1 tokens / }).waitFor();
        expect(new URL(page.url()).searchParams.get('zone')).toBe('Pacific/Kiritimati');
        await page.reload();
        await page.getByRole('row', { name: /^Tue 3 Mar 1 tokens / }).waitFor();
      },
      { looks: WIDE_AND_NARROW },
    );
    await browser.visit(holdfast.url, `/usage?${query}&zone=Mars%2FOlympus`, '11 tokens in all');
  });

  test('more than a year of days is cut, and says so; keys have their names', async () => {
    const { keys } = expectStatus(
      await holdfast.admin('GET', `/v1/admin/api-keys?tenant_id=${tenant.id}`),
      200,
    );
    const key = keys[0];
    await browser.visit(
      holdfast.url,
      `/usage?tenant_id=${tenant.id}&from=2020-01-01&by=key_id&unit=TOKENS&zone=UTC`,
      'Only the last 366 of these days are shown',
    );
    await browser.visit(
      holdfast.url,
      `/usage?tenant_id=${tenant.id}&by=key_id&unit=TOKENS&zone=UTC`,
      'Charged a day, by API key',
      async (page) => {
        const largest = page.getByRole('region', { name: 'The largest' });
        await largest.getByRole('link', { name: key.name as string, exact: true }).click();
        await page.getByRole('dialog', { name: key.name as string }).waitFor();
      },
    );
  });

  test('a report with more rows than one has says so, and that the file ends there', async () => {
    const { page, complaints, context } = await browser.enter(holdfast.url, '/tenants');
    await page.route(/ops\/usage\?.*group_by=day%2C/, async (route) => {
      const answer = await route.fetch();
      await route.fulfill({ response: answer, json: { ...(await answer.json()), has_more: true } });
    });
    await page.goto(`${holdfast.url}/console/usage?tenant_id=${tenant.id}&by=agent&unit=TOKENS`);
    await page.getByText('There are more than 10,000 rows by day and agent').waitFor();
    expect(complaints).toEqual([]);
    await context.close();
    const rows = `tenant_id=${tenant.id}&group_by=agent&format=csv&limit=2`;
    const file = await fetch(`${holdfast.url}/ops/usage?${rows}`, {
      headers: { 'x-admin-api-key': ADMIN_API_KEY },
    });
    expect(file.headers.get('content-disposition')).toContain('filename="usage-first-2-rows.csv"');
  });

  test('usage looks as in the pictures of README, in light and dark colours', async () => {
    for (const colorScheme of ['light', 'dark'] as const) {
      const { page, complaints, context } = await browser.enter(holdfast.url, '/tenants', {
        colorScheme,
        viewport: { width: 1280, height: 780 },
      });
      // No archiver runs here. One would have said that it has archived these days.
      await page.route(/ops\/usage/, async (route) => {
        const answer = await route.fetch();
        await route.fulfill({
          response: answer,
          json: { ...(await answer.json()), complete_from_ms: 0, complete_through_ms: Date.now() },
        });
      });
      await page.goto(`${holdfast.url}/console/usage?tenant_id=acme&by=agent&from=2026-01-01&to=2026-01-30`);
      await page.getByText('The 8 largest').waitFor();
      await expectPicture(page, `usage-${colorScheme}`);
      expect(complaints).toEqual([]);
      await context.close();
    }
  });

  test('days before any charge and an unknown key say so', async () => {
    await browser.visit(
      holdfast.url,
      '/usage?from=2020-01-01&to=2020-01-02',
      'The archive has no charges in these days',
      async (page) => {
        // No archiver runs here. One would have said that it has archived these days.
        let more: object = { complete_from_ms: 0, complete_through_ms: Date.now() };
        await page.route(/ops\/usage/, async (route) => {
          const answer = await route.fetch();
          await route.fulfill({ response: answer, json: { ...(await answer.json()), ...more } });
        });
        await page.reload();
        await page.getByText('Nothing was charged in these days').waitFor();
        // It begins later than where it has come to, until it has written its first charges.
        more = { complete_from_ms: Date.now(), complete_through_ms: Date.now() - HOUR_MS };
        await page.goto(`${holdfast.url}/console/usage`);
        await page.getByText(/Nothing (later )?is archived yet/).waitFor();
        expect(await page.getByText('Complete').count()).toBe(0);
      },
    );
    await browser.visit(holdfast.url, '/usage?by=colour', 'group_by');
  });

  test('a budget shows its usage, and when it runs out at the present rate', async () => {
    const scope = `tenant:${tenant.id}`;
    await browser.visit(
      holdfast.url,
      `/budgets/TOKENS?scope=${scope}`,
      'Charged in the last 30 days',
      async (page) => {
        // 200 of 900 in six hours.
        await page.getByText('Runs out in about 27 h at the rate of the last six hours').waitFor();
        await page.getByRole('list', { name: 'Charged by kind of action' }).getByText('search 100').waitFor();
        // The same in one hour of the six that the archive has, and nothing where it has lost charges.
        let more: object = { complete_from_ms: Date.now() - HOUR_MS };
        await page.route(/ops\/usage\?.*group_by=scope/, async (route) => {
          const answer = await route.fetch();
          await route.fulfill({ response: answer, json: { ...(await answer.json()), ...more } });
        });
        await page.reload();
        const ofSome = 'h at the rate of what the archive has of the last six hours';
        await page.getByText(new RegExp(`Runs out in about [45] ${ofSome}`)).waitFor();
        more = { gaps: [{ from_ms: 0, to_ms: 1, why: 'MISSING' }] };
        await page.reload();
        await page.getByText('search 100').waitFor();
        expect(await page.getByText('Runs out').count()).toBe(0);
      },
    );
    const hour = {
      name: 'hour',
      limit: { unit: 'TOKENS', amount: 1 },
      every: 'month',
      time_zone: 'UTC',
      anchor_day: new Date(Date.now() - 5 * DAY_MS).getUTCDate(),
    };
    const windows = `/ops/budgets/windows?scope=${scope}/agent:quick&unit=TOKENS`;
    expectStatus(await holdfast.admin('PUT', windows, { windows: [hour] }), 200);
    await browser.visit(holdfast.url, '/', 'Budgets nearest their limits', async (page) => {
      await page.getByText('Window hour runs out in about 2 min').waitFor();
      await page.getByText('Runs out in about 27 h').waitFor();
    });
  });

  test('a template is created with a preview of the scopes that match, makes a budget that names it, and is changed and deleted', async () => {
    const subject = { tenant: tenant.id, agent: 'known' };
    expectStatus(await holdfast.reserve(tenant, 1, { subject }), 200);
    const pattern = `tenant:${tenant.id}/agent:*`;
    const templates = async (): Promise<Json[]> =>
      expectStatus(await holdfast.admin('GET', `/ops/budget-templates?tenant_id=${tenant.id}`), 200)
        .templates;
    await browser.visit(holdfast.url, `/tenants/${tenant.id}`, 'No templates', async (page) => {
      const dialog = page.getByRole('dialog');
      await page.getByRole('button', { name: 'Create template' }).click();
      await dialog.getByLabel('Id').fill('each-agent');
      await dialog.getByLabel('Unit').selectOption('tokens');
      await dialog.getByLabel('Scopes').fill('tenant:elsewhere/agent:*');
      await dialog
        .getByText('No scope of the first 100 budgets and the last 100 reservations matches')
        .waitFor();
      await dialog.getByLabel('Allocated').fill('50');
      await dialog.getByRole('button', { name: 'Create template' }).click();
      await dialog.getByRole('alert').waitFor();
      await dialog.getByLabel('Scopes').fill(pattern);
      await dialog
        .getByText('2 scopes that are known match: 1 without a budget in tokens get one, 1 keep')
        .waitFor();
      await dialog.getByText('/agent:known gets one').waitFor();
      await dialog.getByLabel('Periods').selectOption('By the calendar');
      await dialog.getByRole('button', { name: 'Add window' }).click();
      await dialog.getByText('A name of lower-case letters').waitFor();
      await dialog.getByLabel('Name').fill('day');
      await dialog.getByText('A limit in tokens is missing').waitFor();
      await dialog.getByLabel('Limit', { exact: true }).fill('20');
      await dialog.getByLabel('Time zone').last().selectOption('Asia/Tokyo');
      await dialog.getByRole('button', { name: 'Create template' }).click();
      await dialog.waitFor({ state: 'detached' });
      const day = { name: 'day', every: 'day', time_zone: 'Asia/Tokyo' };
      expect(await templates()).toMatchObject([{ windows: [{ ...day, limit: { amount: 20 } }] }]);
      await page.getByRole('row', { name: /^each-agent .* 50 tokens new every month from day 1/ }).waitFor();
      expectStatus(await holdfast.reserve(tenant, 1, { subject }), 200);

      await page.getByRole('button', { name: 'Edit each-agent' }).click();
      expect(await dialog.getByLabel('Scopes').isDisabled()).toBe(true);
      await dialog.getByLabel('Limit', { exact: true }).fill('30');
      await dialog.getByRole('row', { name: 'Window day 20 every day, Asia/Tokyo 30 every day' }).waitFor();
      await dialog.getByLabel('Allocated').fill('60');
      await dialog.getByLabel('Budgets that it has made').selectOption('get what it sets, too');
      await dialog.getByRole('row', { name: 'Allocated 50 60' }).waitFor();
      await dialog.getByRole('button', { name: 'Change the template' }).click();
      await dialog.waitFor({ state: 'detached' });
      expect(await templates()).toMatchObject([
        {
          template_id: 'each-agent',
          scope_pattern: pattern,
          allocated: { amount: 60 },
          recurrence: { every: 'month' },
          windows: [{ ...day, limit: { amount: 30 } }],
        },
      ]);
      await page.getByRole('button', { name: 'Edit each-agent' }).click();
      await dialog.getByRole('button', { name: 'Remove window 1' }).click();
      await dialog.getByRole('row', { name: 'Window day 30 every day, Asia/Tokyo none' }).waitFor();
      await dialog.getByRole('button', { name: 'Change the template' }).click();
      await dialog.waitFor({ state: 'detached' });
      expect((await templates())[0]).not.toHaveProperty('windows');
    });
    await browser.visit(
      holdfast.url,
      `/budgets/TOKENS?scope=tenant:${tenant.id}/agent:known`,
      'by the template each-agent',
      (page) => page.getByText('Allocated 60 tokens').waitFor(),
    );
    await browser.visit(holdfast.url, `/tenants/${tenant.id}`, 'each-agent', async (page) => {
      await page.getByRole('button', { name: 'Delete each-agent' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Delete the template' }).click();
      await page.getByText('No templates').waitFor();
    });
    expect(await templates()).toEqual([]);
  });

  test('an instance without an archive says at once what to set', async () => {
    const without = await Holdfast.start({ REDIS_URL: redis.url });
    try {
      await browser.visit(without.url, '/usage', 'Usage is not recorded here', async (page) => {
        await page.getByText('set ARCHIVE_DIR to a folder on a volume').waitFor();
      });
    } finally {
      await without.stop();
    }
  });
});
