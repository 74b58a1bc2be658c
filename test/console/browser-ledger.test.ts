import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { treeOrder } from '../../src/ledger/scopes.js';
import { budgetIndexKey, budgetKey } from '../../src/redis/keyspace.js';
import { makeHolds } from '../support/bulk-holds.js';
import { VIEWER_API_KEY } from '../support/console-client.js';
import {
  ATTACK,
  ConsoleBrowser,
  describeInBrowser,
  expectAccessible,
  LIGHT_AND_DARK,
  SHORT_ATTACK,
  WITHOUT_BROWSER,
} from '../support/console-browser.js';
import { eventually } from '../support/eventually.js';
import {
  expectStatus,
  Holdfast,
  type Json,
  newTenantId,
  reserveBody,
  type TestTenant,
} from '../support/holdfast.js';
import { PUBLIC_URL } from '../support/subscriber.js';
import { subscribe } from '../webhooks/dispatching.js';
import { type RedisServer, startRedis } from '../support/redis-server.js';
import { StoredHolds } from '../support/stored-holds.js';

describeInBrowser(`the pages of the ledger${WITHOUT_BROWSER}`, () => {
  const browser = new ConsoleBrowser();
  let redis: RedisServer;
  let holdfast: Holdfast;
  let tenant: TestTenant;
  let held: Json;

  beforeAll(async () => {
    redis = await startRedis();
    holdfast = await Holdfast.start({ REDIS_URL: redis.url, VIEWER_API_KEY, RECORD_ACTIVITY: 'true' });
    tenant = await holdfast.createTenant({ name: ATTACK });
    await holdfast.createBudget(tenant, '', 9_007_199_254_740_993n, { unit: 'USD_MICROCENTS' });
    await holdfast.createBudget(tenant, '', 1000);
    const period = { period_end: '2100-01-01T00:00:00Z', rollover_policy: 'CARRY_FORWARD' };
    await holdfast.createBudget(tenant, '/workspace:prod', 100, period);
    const subject = { tenant: tenant.id, workspace: 'prod' };
    const quarter = { event_types: ['budget.threshold_crossed'], thresholds: { budget_utilization: [0.25] } };
    await subscribe(holdfast, tenant, PUBLIC_URL, quarter);
    held = expectStatus(
      await holdfast.reserve(tenant, 40, {
        subject,
        action: { kind: SHORT_ATTACK, name: ATTACK },
        idempotency_key: ATTACK,
        ttl_ms: 3_600_000,
      }),
      200,
    );
    expectStatus(await holdfast.reserve(tenant, 700, { subject }), 409);
    const day = { name: 'day', limit: { unit: 'TOKENS', amount: 70 }, every: 'day', time_zone: 'UTC' };
    const week = {
      ...day,
      name: 'week',
      limit: { unit: 'TOKENS', amount: 65 },
      every: 'week',
      anchor_day: 5,
    };
    const windows = `/ops/budgets/windows?scope=${scope()}&unit=TOKENS`;
    expectStatus(await holdfast.admin('PUT', windows, { windows: [day, week] }), 200);
    const used = { actual: { unit: 'TOKENS', amount: 20 }, action: { kind: 'llm', name: 'm' }, subject };
    const body = { idempotency_key: 'used', ...used };
    expectStatus(await holdfast.call('POST', '/v1/events', { key: tenant.key, body }), 201);
  });

  afterAll(async () => {
    await holdfast?.stop();
    await redis?.stop();
  });

  const scope = (): string => `tenant:${tenant.id}/workspace:prod`;
  const budget = async (): Promise<Json> =>
    expectStatus(await holdfast.admin('GET', `/v1/admin/budgets/lookup?scope=${scope()}&unit=TOKENS`), 200);

  const visit = (
    path: string,
    ...rest: Parameters<ConsoleBrowser['visit']> extends [string, string, ...infer Rest] ? Rest : never
  ) => browser.visit(holdfast.url, path, ...rest);

  test('show as text what a client stored, accessibly, in light and dark colours', async () => {
    const looks = LIGHT_AND_DARK;
    await visit('/tenants', ATTACK, undefined, { looks });
    await visit(
      `/budgets?tenant_id=${tenant.id}`,
      '$90,071,992.5474',
      (page) => page.getByRole('cell', { name: '60%', exact: true }).waitFor(),
      { looks },
    );
    await visit(
      '/',
      'Budgets nearest their limits',
      (page) => page.getByText('window week: 5 tokens remain').waitFor(),
      { looks },
    );
    await visit(
      `/budgets/TOKENS?scope=${scope()}`,
      'budget exceeded',
      async (page) => {
        await page.getByText('If a commit costs more: as the tenant says.').waitFor();
        await page.getByText('to 1 Jan 2100, 01:00:00. The next one').waitFor();
        await page.getByText('What is not spent is carried over.').waitFor();
        await page.getByRole('row', { name: /^day 70 20 40 10 .* every day, UTC$/ }).waitFor();
        await page.getByRole('row', { name: /^week 65 20 40 5 .* every week from Friday, UTC$/ }).waitFor();
        await page.getByRole('row', { name: /^25% Reached .* upwards$/ }).waitFor();
        await page.getByRole('row', { name: /^80% Not reached never/ }).waitFor();
        await page.getByRole('img', { name: 'Denials a day, at most 1' }).waitFor();
        await page.getByRole('row', { name: / Created – 100 / }).waitFor();
      },
      { looks },
    );
    await visit(
      `/reservations?tenant=${tenant.id}`,
      held.reservation_id as string,
      async (page) => {
        await page.getByLabel('Scope, by its levels').fill(`${scope()}/agent:none`);
        await page.waitForURL(/workspace=prod&agent=none/);
        await page.getByText('No reservations here').waitFor();
        await page.getByLabel('Scope, by its levels').fill('workspace:prod');
        await page.getByText('1 row', { exact: true }).waitFor();
        await page.getByLabel('Created to').fill('2026-01-01T00:00:00');
        await page.getByText('No reservations here').waitFor();
      },
      { looks },
    );
    await visit(
      `/reservations/${held.reservation_id}`,
      `${SHORT_ATTACK} ${ATTACK}`,
      (page) => page.getByText(ATTACK, { exact: true }).waitFor(),
      { looks },
    );
  });

  test('a live hold says whether its amount returns by itself', async () => {
    const manual = await holdfast.fundedTenant(1000, { reservation_expiry_policy: 'MANUAL_CLEANUP' });
    const waits = expectStatus(await holdfast.reserve(manual, 40), 200);
    await visit(
      `/reservations/${waits.reservation_id}`,
      'The amount stays held until an operator cleans it up or it is released.',
      (page) => page.getByText('Waits for a cleanup, unless it is settled or extended').waitFor(),
    );
    await visit(`/reservations/${held.reservation_id}`, 'The amount then returns to every budget.', (page) =>
      page.getByText('Expires, unless it is settled or extended').waitFor(),
    );
  });

  test('a reservation says what it costs if it expires, and what it has cost', async () => {
    const payer = await holdfast.createTenant();
    await holdfast.createBudget(payer, '', 1000);
    const { reservation_id: id } = expectStatus(
      await holdfast.call('POST', '/v1/reservations', {
        key: payer.key,
        body: reserveBody(payer, 40),
        headers: { 'x-holdfast-charge-on-expiry': '31' },
      }),
      200,
    );
    await visit(`/reservations/${id}`, 'The rest then returns to every budget.', (page) =>
      page.getByText('31 tokens charged').waitFor(),
    );
    const stored = new StoredHolds(redis.url);
    await stored.expireIn(id as string, -60_000);
    stored.close();
    await visit(`/reservations/${id}`, 'Charged 31', (page) => page.getByText('9 returned to').waitFor());
  });

  test('filters are in the URL, a budget is created, and a narrow screen has no sideways scroll', async () => {
    await visit(
      '/budgets',
      'tenant:',
      async (page) => {
        // On a narrow screen, the filters are folded.
        await page.getByRole('button', { name: 'Filters', exact: true }).click();
        await page.getByLabel('Scope contains').fill('prod');
        await page.waitForURL(/search=prod/);
        await page.getByRole('button', { name: 'Filters (1)' }).click();
        expect(await page.getByLabel('Scope contains').isVisible()).toBe(false);
        await page.getByText('1 row', { exact: true }).waitFor();

        await page.getByRole('button', { name: 'Create budget' }).click();
        const dialog = page.getByRole('dialog');
        const created = `tenant:${tenant.id}/workspace:prod-2`;
        await dialog.getByLabel('Scope').fill(created);
        await dialog.getByLabel('Unit').selectOption('CREDITS');
        await dialog.getByLabel('Allocated').fill('5,000');
        await dialog.getByRole('row', { name: 'Allocated none 5,000' }).waitFor();
        await dialog.getByRole('button', { name: 'Create budget' }).click();
        await page.getByText('2 rows', { exact: true }).waitFor();
        const path = `/v1/admin/budgets/lookup?scope=${created}&unit=CREDITS`;
        expect(expectStatus(await holdfast.admin('GET', path), 200).allocated.amount).toBe(5000);
      },
      { looks: [{ width: 390 }] },
    );
  });

  /** Creates budgets for ten thousand agents below the tenant's, as copies of it. */
  async function storeAgents(of: TestTenant): Promise<void> {
    const stored = new StoredHolds(redis.url);
    const tag = stored.tagOfTenant(of.id);
    const template = await stored.redis.hgetall(budgetKey(tag, 'TOKENS', `tenant:${of.id}`));
    const pipeline = stored.redis.pipeline();
    for (let agent = 0; agent < 10_000; agent += 1) {
      const path = `tenant:${of.id}/workspace:w${agent % 50}/agent:a${agent}`;
      pipeline.hset(budgetKey(tag, 'TOKENS', path), {
        ...template,
        ledger_id: `${template['ledger_id']}${agent}`,
      });
      pipeline.zadd(budgetIndexKey(tag, of.id), 0, treeOrder(`${path} TOKENS`));
    }
    await pipeline.exec();
    stored.close();
  }

  test('ten thousand budgets can be scrolled, sorted and searched with few rows in the document', async () => {
    const many = await holdfast.fundedTenant(100);
    await storeAgents(many);
    await visit(`/budgets?tenant_id=${many.id}&sort_by=scope`, '100 rows, more to come', async (page) => {
      const rows = (): Promise<number> =>
        page.evaluate<number>("document.querySelectorAll('tbody tr').length");
      const shown = page.getByRole('status').filter({ hasText: 'rows, more to come' });
      await eventually('six pages have come', async () => {
        await page.evaluate('window.scrollTo(0, document.documentElement.scrollHeight)');
        return Number((await shown.innerText()).replace(/\D/g, '')) >= 600;
      });
      await eventually('rows out of sight leave the document', async () => (await rows()) < 450);
      await page.evaluate('window.scrollTo(0, 0)');
      await page.getByRole('link', { name: `tenant:${many.id}`, exact: true }).waitFor();
      await page.getByLabel('Order by').selectOption('debt');
      await page.getByText('100 rows, more to come').waitFor();
      await page.getByLabel('Scope contains').fill('a9999');
      await page.getByText('1 row', { exact: true }).waitFor();
    });
  });

  test('of many holds those with the first deadlines are shown, and a long search waits for the user', async () => {
    const many = await holdfast.fundedTenant(1000);
    const stored = new StoredHolds(redis.url);
    const holds = Array.from({ length: 101 }, () => ({}));
    await makeHolds(stored.redis, stored.tagOfTenant(many.id), many.id, holds);
    stored.close();
    /** Makes the first pages look as if many other reservations had to be read. */
    const obstruct = (page: Page, path: RegExp, first: Json, examined: readonly number[]): Promise<unknown> =>
      page.route(path, (route) => {
        const url = new URL(route.request().url());
        const done = Number(url.searchParams.get('cursor') ?? 0);
        url.searchParams.delete('cursor');
        const json = { ...first, examined: examined[done], has_more: true, next_cursor: String(done + 1) };
        const headers = { 'x-holdfast-examined': String(examined[done]) };
        return done < examined.length
          ? route.fulfill({ json, headers })
          : route.continue(done === examined.length ? { url: url.href } : {});
      });
    await visit(`/budgets/TOKENS?scope=tenant:${many.id}`, 'the first 50', async (page) => {
      await obstruct(
        page,
        /ops\/budgets\/holds/,
        { holds: [] },
        Array.from({ length: 5 }, () => 20_000),
      );
      await page.reload();
      await page.getByText('100,000 live reservations looked at').waitFor();
      await page.getByRole('button', { name: 'Search on' }).click();
      await page.getByText('the first 50').waitFor();
    });
    await visit(`/tenants/${many.id}`, 'Live holds', async (page) => {
      await obstruct(page, /v1\/reservations\?/, { reservations: [] }, [20_000, 180_000]);
      await page.getByRole('link', { name: 'Live holds' }).click();
      await page.getByText('0 rows, 200,000 looked at, not all yet').waitFor();
      await page.getByRole('button', { name: 'Search on' }).click();
      await page.getByText('100 rows, 200,000 looked at, more to come').waitFor();
    });
  });

  test('an operator gives a budget a calendar, changes it and ends it, with a preview', async () => {
    const other = await holdfast.fundedTenant(100);
    const root = `tenant:${other.id}`;
    const recurrence = async (): Promise<Json> =>
      expectStatus(await holdfast.admin('GET', `/ops/budgets/recurrence?scope=${root}&unit=TOKENS`), 200);
    await visit(`/budgets/TOKENS?scope=${root}`, 'It has no period', async (page) => {
      await page.getByText('It has no windows').waitFor();
      const dialog = page.getByRole('dialog');
      const open = (): Promise<void> => page.getByRole('button', { name: 'Change the period' }).click();
      const confirm = async (): Promise<void> => {
        await dialog.getByRole('button', { name: 'Change the period' }).click();
        await dialog.waitFor({ state: 'detached' });
      };
      await open();
      await dialog.getByLabel('Periods').selectOption('fixed');
      await dialog.getByLabel('Ends').fill('2100-01-01T01:00:00');
      await dialog.getByRole('row', { name: 'Next begins never 1 Jan 2100, 01:00:00' }).waitFor();
      await confirm();
      await page.getByText('to 1 Jan 2100, 01:00:00. The next one').waitFor();
      expect(
        expectStatus(await holdfast.admin('GET', `/v1/admin/budgets/lookup?scope=${root}&unit=TOKENS`), 200)
          .period_end,
      ).toBe('2100-01-01T00:00:00.000Z');

      await open();
      await dialog.getByLabel('Periods').selectOption('calendar');
      await dialog.getByLabel('Every').selectOption('week');
      await dialog.getByLabel('Day').selectOption('Friday');
      await dialog.getByLabel('Time zone').selectOption('Asia/Tokyo');
      await dialog.getByLabel('What is not spent').selectOption('CARRY_FORWARD');
      const words = 'every week from Friday, Asia/Tokyo';
      await dialog.getByRole('row', { name: `Periods of the same length ${words}` }).waitFor();
      await dialog.getByRole('row', { name: 'Not spent is lost is carried over' }).waitFor();
      const next = dialog
        .getByRole('row', { name: /Next begins 1 Jan 2100/ })
        .getByRole('time')
        .last();
      const foreseen = await next.getAttribute('datetime');
      await expectAccessible(page);
      await confirm();
      await page.getByText(words).waitFor();
      expect(await recurrence()).toMatchObject({
        every: 'week',
        anchor_day: 5,
        time_zone: 'Asia/Tokyo',
        rollover_policy: 'CARRY_FORWARD',
        period_end: foreseen,
      });

      await open();
      await dialog.getByLabel('Periods').selectOption('none');
      await dialog.getByRole('row', { name: `Periods ${words} none` }).waitFor();
      await confirm();
      await page.getByText('It has no period').waitFor();
      expect((await recurrence()).next_boundaries).toEqual([]);
    });
  });

  test('an operator limits a budget by windows, changes one and ends them, with a preview', async () => {
    const other = await holdfast.fundedTenant(100);
    const root = `tenant:${other.id}`;
    const windows = async (): Promise<Json[]> =>
      expectStatus(await holdfast.admin('GET', `/ops/budgets/windows?scope=${root}&unit=TOKENS`), 200)
        .windows as Json[];
    await visit(`/budgets/TOKENS?scope=${root}`, 'It has no windows', async (page) => {
      const dialog = page.getByRole('dialog');
      const open = (): Promise<void> => page.getByRole('button', { name: 'Change the windows' }).click();
      const confirm = async (): Promise<void> => {
        await dialog.getByRole('button', { name: 'Change the windows' }).click();
        await dialog.waitFor({ state: 'detached' });
      };
      await open();
      await dialog.getByText('Nothing changes yet').waitFor();
      for (const [number, name, limit, every] of [
        [1, 'day', '50', 'day'],
        [2, 'week', '80', 'week'],
      ] as const) {
        await dialog.getByRole('button', { name: 'Add window' }).click();
        const fields = dialog.getByRole('group', { name: `Window ${number}` });
        await dialog.getByText('A name of lower-case letters').waitFor();
        await fields.getByLabel('Name').fill(name);
        await dialog.getByText('A limit in tokens is missing').waitFor();
        await fields.getByLabel('Limit').fill(limit);
        await fields.getByLabel('Every').selectOption(every);
        await fields.getByLabel('Time zone').selectOption('Asia/Tokyo');
      }
      await dialog.getByRole('row', { name: 'day none 50 every day, Asia/Tokyo' }).waitFor();
      await dialog.getByRole('row', { name: 'week none 80 every week from Monday, Asia/Tokyo' }).waitFor();
      await expectAccessible(page);
      await confirm();
      await page.getByRole('row', { name: /^week 80 0 0 80 / }).waitFor();
      expect(await windows()).toMatchObject([
        { name: 'day', limit: { amount: 50 }, every: 'day', time_zone: 'Asia/Tokyo' },
        { name: 'week', limit: { amount: 80 }, every: 'week', anchor_day: 1 },
      ]);

      expectStatus(await holdfast.reserve(other, 30), 200);
      await open();
      await dialog.getByRole('button', { name: 'Remove window 2' }).click();
      await dialog.getByRole('group', { name: 'Window 1' }).getByLabel('Limit').fill('40');
      await dialog.getByRole('row', { name: 'day 50 every day, Asia/Tokyo 40 every day' }).waitFor();
      await dialog.getByRole('row', { name: 'week 80 every week from Monday, Asia/Tokyo none' }).waitFor();
      await confirm();
      await page.getByRole('row', { name: /^day 40 0 30 10 / }).waitFor();
      expect(await windows()).toHaveLength(1);

      await open();
      await dialog.getByRole('button', { name: 'Remove window 1' }).click();
      await confirm();
      await page.getByText('It has no windows').waitFor();
      expect(await windows()).toEqual([]);
    });
  });

  test('a window whose time zone is no longer known gets another calendar only if the operator sees that', async () => {
    const other = await holdfast.fundedTenant(100);
    const root = `tenant:${other.id}`;
    const day = { name: 'day', limit: { unit: 'TOKENS', amount: 50 }, every: 'day', time_zone: 'UTC' };
    const week = { ...day, name: 'week', every: 'week' };
    const path = `/ops/budgets/windows?scope=${root}&unit=TOKENS`;
    expectStatus(await holdfast.admin('PUT', path, { windows: [day, week] }), 200);
    const stored = new StoredHolds(redis.url);
    const budget = budgetKey(stored.tagOfTenant(other.id), 'TOKENS', root);
    await stored.redis.hset(budget, 'window_rules', 'day Gone/Zone 1 1|week UTC 1 1');
    stored.close();
    await visit(`/budgets/TOKENS?scope=${root}`, 'not known any more', async (page) => {
      const dialog = page.getByRole('dialog');
      await page.getByRole('button', { name: 'Change the windows' }).click();
      await dialog.getByRole('group', { name: 'Window 2' }).getByLabel('Limit').fill('60');
      await dialog.getByRole('row', { name: 'week 50 every week from Monday, UTC 60 every' }).waitFor();
      await dialog
        .getByRole('row', { name: 'day 50 by a calendar not known any more 50 every day' })
        .waitFor();
    });
  });

  test('a reset of what is spent shows what became of it', async () => {
    const reset = await holdfast.fundedTenant(100);
    expectStatus(await holdfast.commit(reset, await holdfast.hold(reset, 70), 70), 200);
    const path = `/v1/admin/budgets/fund?tenant_id=${reset.id}&scope=tenant:${reset.id}&unit=TOKENS`;
    const body = {
      operation: 'RESET_SPENT',
      amount: { unit: 'TOKENS', amount: 100 },
      idempotency_key: 'one',
    };
    expectStatus(await holdfast.admin('POST', path, body), 200);
    await visit(`/budgets/TOKENS?scope=tenant:${reset.id}`, 'Reset spent', async (page) => {
      await page.getByRole('row', { name: / Reset spent spent 70 spent 0 / }).waitFor();
      await page.getByText(/^last changed, by somebody or a new period, /).waitFor();
    });
  });

  test('an operator funds, freezes and unfreezes a budget, with a preview', async () => {
    await visit(`/budgets/TOKENS?scope=${scope()}`, held.reservation_id as string, async (page) => {
      await page.getByRole('button', { name: 'Fund or reset' }).click();
      await page.getByLabel('Amount').fill('50');
      await page.getByLabel('Reason').fill(ATTACK);
      await page.getByRole('row', { name: 'Allocated 100 150' }).waitFor();
      await expectAccessible(page);
      await page.getByRole('button', { name: 'Change the budget' }).click();
      await page.getByText('Allocated 150 tokens').waitFor();
      const change = page.getByRole('row', { name: / Funded 100 150 / });
      await change.getByRole('cell', { name: ATTACK, exact: true }).waitFor();
      expect((await budget()).allocated.amount).toBe(150);
      const dialog = page.getByRole('dialog');
      for (const [operation, amount, allocated] of [
        ['DEBIT', '10', 140],
        ['RESET', '120', 120],
      ] as const) {
        await page.getByRole('button', { name: 'Fund or reset' }).click();
        await dialog.getByLabel('Operation').selectOption(operation);
        await dialog.getByLabel('Amount').fill(amount);
        await dialog.getByRole('row', { name: new RegExp(`^Allocated \\d+ ${allocated}$`) }).waitFor();
        await dialog.getByRole('button', { name: 'Change the budget' }).click();
        await dialog.waitFor({ state: 'detached' });
        expect((await budget()).allocated.amount).toBe(allocated);
      }
      await page.getByRole('button', { name: 'Overdraft limit' }).click();
      await dialog.getByLabel('Overdraft limit').fill('30');
      await dialog.getByRole('row', { name: 'Overdraft limit 0 30' }).waitFor();
      await dialog.getByRole('button', { name: 'Change the limit' }).click();
      await dialog.waitFor({ state: 'detached' });
      expect((await budget()).overdraft_limit.amount).toBe(30);
      for (const [verb, status] of [
        ['Freeze', 'FROZEN'],
        ['Unfreeze', 'ACTIVE'],
      ] as const) {
        await page.getByRole('button', { name: verb, exact: true }).click();
        await page.getByRole('dialog').getByRole('button', { name: verb, exact: true }).click();
        await page.getByRole('dialog').waitFor({ state: 'detached' });
        expect((await budget()).status).toBe(status);
      }
    });
  });

  test('an operator creates a tenant and a key, whose secret works until the key is revoked', async () => {
    const id = newTenantId();
    await visit('/tenants', ATTACK, async (page) => {
      await page.getByRole('button', { name: 'Create tenant' }).click();
      await page.getByLabel('Id').fill(id);
      await page.getByLabel('Name').fill('Made here');
      await page.getByRole('dialog').getByRole('button', { name: 'Create tenant' }).click();
      const row = page.getByRole('row').filter({ hasText: id });
      await row.getByRole('button', { name: 'Create key' }).click();
      await page.getByLabel('Name').fill(ATTACK);
      await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
      const key = await page.getByRole('status').filter({ hasText: 'cyc_' }).innerText();
      const balances = () => holdfast.call('GET', `/v1/balances?tenant=${id}`, { key });
      expect((await balances()).status).toBe(200);
      await page.getByRole('button', { name: 'I have copied it' }).click();
      await row.getByRole('link', { name: 'Made here' }).click();
      await page.getByRole('button', { name: `Revoke ${ATTACK}` }).click();
      await page.getByLabel('Reason').fill(ATTACK);
      await page.getByRole('row', { name: 'Status Active Revoked' }).waitFor();
      await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
      await page.getByRole('cell', { name: 'Revoked', exact: true }).waitFor();
      await eventually('the key is refused', async () => (await balances()).status === 401);
      const { keys } = expectStatus(await holdfast.admin('GET', `/v1/admin/api-keys?tenant_id=${id}`), 200);
      expect(keys).toMatchObject([{ name: ATTACK, status: 'REVOKED', revoked_reason: ATTACK }]);
    });
  });

  test('an operator releases a reservation with a reason, and its time line says so', async () => {
    await visit(`/reservations/${held.reservation_id}`, 'Lease ends', async (page) => {
      await page.getByRole('button', { name: 'Release' }).click();
      await page.getByLabel('Reason').fill(ATTACK);
      await page.getByRole('dialog').getByRole('button', { name: 'Release' }).click();
      await page.getByText('by an operator').waitFor();
      await page.getByRole('listitem').filter({ hasText: 'by an operator' }).getByText(ATTACK).waitFor();
      expect((await budget()).reserved.amount).toBe(0);
    });
  });

  test('a viewer sees the pages without controls that change anything', async () => {
    await visit(
      `/budgets/TOKENS?scope=${scope()}`,
      'Figures',
      async (page) => {
        await page.getByText('Read only').waitFor();
        await page.getByRole('row', { name: /^week / }).waitFor();
        expect(await page.getByRole('button', { name: /Freeze|Change/ }).count()).toBe(0);
      },
      { key: VIEWER_API_KEY },
    );
  });
});
