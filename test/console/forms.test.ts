import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Locator, Page } from 'playwright-core';
import {
  ConsoleBrowser,
  describeInBrowser,
  expectAccessible,
  spilling,
  WITHOUT_BROWSER,
} from '../support/console-browser.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast, type Json, type TestTenant } from '../support/holdfast.js';
import { type RedisServer, startRedis } from '../support/redis-server.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';
import {
  allowLoopback,
  deliveries,
  endedDeliveries,
  subscribe,
  subscription,
  SYSTEM,
} from '../webhooks/dispatching.js';

/** Each form of the console does its work, and shows why an input is refused. */
describeInBrowser(`forms${WITHOUT_BROWSER}`, () => {
  const browser = new ConsoleBrowser();
  let redis: RedisServer;
  let holdfast: Holdfast;
  let receiver: WebhookReceiver;
  let tenant: TestTenant;

  beforeAll(async () => {
    redis = await startRedis();
    holdfast = await Holdfast.start({
      REDIS_URL: redis.url,
      HOLDFAST_ROLES: 'api,dispatcher',
      webhookPollMs: 20,
    });
    receiver = await WebhookReceiver.start();
    await allowLoopback(holdfast);
    tenant = await holdfast.createTenant();
  });

  afterAll(async () => {
    await holdfast?.stop();
    await receiver?.stop();
    await redis?.stop();
  });

  const read = async (path: string): Promise<Json> => expectStatus(await holdfast.admin('GET', path), 200);

  /** Opens a form, gives its dialog to `fill`, sends it and waits until it is closed. */
  async function send(
    page: Page,
    open: string,
    action: string,
    fill: (dialog: Locator) => Promise<void>,
  ): Promise<void> {
    await page.getByRole('button', { name: open, exact: true }).click();
    const dialog = page.getByRole('dialog').last();
    await fill(dialog);
    await dialog.getByRole('button', { name: action, exact: true }).click();
    await dialog.getByRole('button', { name: action, exact: true }).waitFor({ state: 'detached' });
  }

  /** Sends a form that the API refuses, and closes it. */
  async function refused(dialog: Locator, action: string, why: string | RegExp): Promise<void> {
    await dialog.getByRole('button', { name: action, exact: true }).click();
    await dialog.getByRole('alert').getByText(why).waitFor();
  }

  test('a policy is changed, with a preview, and a lease that is too long is refused', async () => {
    const made = await holdfast.admin('POST', '/v1/admin/policies', {
      tenant_id: tenant.id,
      name: 'agents',
      scope_pattern: `tenant:${tenant.id}/*`,
      caps: { max_tokens: 4096, tool_denylist: ['shell'] },
      action_quotas: [
        {
          action_kind: 'message.email.send',
          max_calls: 50,
          window: 'per_day_tumbling',
          recipient_domain_allowlist: ['example.org'],
        },
      ],
    });
    const { policy_id: id } = expectStatus(made, 201);
    await browser.visit(
      holdfast.url,
      `/tenants/${tenant.id}`,
      'at most 4,096 tokens a call',
      async (page) => {
        await send(page, 'Edit agents', 'Change the policy', async (dialog) => {
          await dialog.getByText('Nothing changes yet').waitFor();
          await dialog.getByLabel('Longest lease in ms').fill('999999999');
          await refused(dialog, 'Change the policy', /max_ttl_ms/);
          await dialog.getByLabel('Longest lease in ms').fill('60,000');
          await dialog.getByLabel('Tokens a call').fill('2048');
          await dialog.getByLabel('Status').selectOption('Disabled');
          await dialog.getByLabel('Actions', { exact: true }).fill('60');
          await dialog.getByRole('row', { name: 'Tokens a call 4096 2048' }).waitFor();
          await dialog.getByRole('row', { name: 'Status Active Disabled' }).waitFor();
          await expectAccessible(page);
        });
        await page.getByText('at most 2,048 tokens a call, leases of at most 1 min').waitFor();
      },
    );
    const { policies } = await read(`/v1/admin/policies?tenant_id=${tenant.id}`);
    expect(policies).toMatchObject([
      {
        policy_id: id,
        status: 'DISABLED',
        caps: { max_tokens: 2048, tool_denylist: ['shell'] },
        reservation_ttl_override: { max_ttl_ms: 60_000 },
        action_quotas: [{ max_calls: 60, recipient_domain_allowlist: ['example.org'] }],
      },
    ]);
  });

  test('a key gets permissions, scopes and an end, is changed, and gets a successor', async () => {
    const { id } = await holdfast.createTenant();
    const keys = async (): Promise<Json[]> =>
      (await read(`/v1/admin/api-keys?tenant_id=${id}&sort_by=created_at&sort_dir=asc`)).keys as Json[];
    await browser.visit(holdfast.url, `/tenants/${id}`, 'Last used', async (page) => {
      const copied = async (): Promise<string> => {
        const secret = await page.getByRole('status').filter({ hasText: 'cyc_' }).innerText();
        await page.getByRole('button', { name: 'I have copied it' }).click();
        return secret;
      };
      await send(page, 'Create key', 'Create key', async (dialog) => {
        await dialog.getByLabel('Name').fill('worker');
        await dialog.getByLabel('Only in scopes').fill('workspace');
        await refused(dialog, 'Create key', /scope_filter/);
        await dialog.getByLabel('Only in scopes').fill('workspace:eng\nworkspace:ops/agent:*');
        await dialog.getByLabel('Ends', { exact: true }).fill('2100-01-01T01:00:00');
        for (const permission of ['budgets:write', 'policies:write', 'webhooks:read']) {
          await dialog.getByLabel(permission).click();
        }
        await expectAccessible(page);
      });
      const secret = await copied();
      const [, key] = await keys();
      expect(key).toMatchObject({
        name: 'worker',
        scope_filter: ['workspace:eng', 'workspace:ops/agent:*'],
        expires_at: '2100-01-01T00:00:00.000Z',
      });
      expect(key?.permissions).toContain('webhooks:read');
      expect(key?.permissions).not.toContain('budgets:write');

      await send(page, 'Edit worker', 'Change the key', async (dialog) => {
        await dialog.getByLabel('reservations:release').click();
        await dialog.getByLabel('Description').fill('nightly');
        await dialog.getByRole('row', { name: 'Description none nightly' }).waitFor();
        await dialog.getByRole('row', { name: 'Permissions 9 8' }).waitFor();
      });
      const [, changed] = await keys();
      expect(changed).toMatchObject({ description: 'nightly', scope_filter: key?.scope_filter });
      expect(changed?.permissions).not.toContain('reservations:release');

      await send(page, 'Rotate worker', 'Create its successor', async (dialog) => {
        await dialog.getByLabel('Name').fill('worker 2');
      });
      const next = await copied();
      const [, , successor] = await keys();
      expect(successor).toMatchObject({
        name: 'worker 2',
        permissions: changed?.permissions,
        scope_filter: key?.scope_filter,
      });
      for (const one of [secret, next]) {
        const balances = `/v1/balances?tenant=${id}&workspace=eng`;
        expect((await holdfast.call('GET', balances, { key: one })).status).toBe(200);
      }
    });
  });

  test('a subscription is created, whose secret is shown, and changed; a refused endpoint says why', async () => {
    let id = '';
    await browser.visit(holdfast.url, '/webhooks', 'Only those of the system', async (page) => {
      await send(page, 'Create subscription', 'Create subscription', async (dialog) => {
        await dialog.getByText('An endpoint is missing').waitFor();
        await dialog.getByLabel('Owner').fill(tenant.id);
        await dialog.getByLabel('Endpoint').fill('ftp://127.0.0.1/hook');
        await dialog.getByText('No event is chosen').waitFor();
        expect(await dialog.getByLabel('all of policy').isDisabled()).toBe(true);
        // The API takes them by their category only.
        expect(await dialog.getByLabel('custom.').count()).toBe(0);
        await dialog.getByLabel('all of budget').click();
        await dialog.getByLabel('reservation.denied').click();
        await refused(dialog, 'Create subscription', /http/);
        await dialog.getByLabel('Endpoint').fill(`${receiver.url}/made`);
        await dialog.getByLabel('Thresholds in percent').fill('29, 80');
        await dialog.getByLabel('Own headers').fill('X-Team: payments');
        await dialog.getByLabel('Attempts after the first').fill('2');
        await expectAccessible(page);
      });
      const secret = await page.getByRole('status').filter({ hasText: 'whsec_' }).innerText();
      expect(secret).toMatch(/^whsec_/);
      await page.getByRole('button', { name: 'I have copied it' }).click();
      await page.getByRole('link', { name: `${receiver.url}/made` }).click();
      await page.getByText('reservation.denied, all of budget').waitFor();
      id = new URL(page.url()).pathname.split('/').at(-1) ?? '';
      expect(await subscription(holdfast, id)).toMatchObject({
        tenant_id: tenant.id,
        event_types: ['reservation.denied'],
        event_categories: ['budget'],
        thresholds: { budget_utilization: [0.29, 0.8] },
        retry_policy: { max_retries: 2 },
      });

      await send(page, 'Edit', 'Change the subscription', async (dialog) => {
        await dialog.getByLabel('Name').fill('payments');
        await dialog.getByLabel('Thresholds in percent').fill('200');
        await dialog.getByText('Thresholds are percentages').waitFor();
        await dialog.getByLabel('Thresholds in percent').fill('50');
        await dialog.getByLabel('all of budget').click();
        await dialog.getByRole('row', { name: 'Name none payments' }).waitFor();
      });
      await page.getByRole('heading', { name: 'payments' }).waitFor();
    });
    const changed = await subscription(holdfast, id);
    expect(changed).toMatchObject({
      name: 'payments',
      event_types: ['reservation.denied'],
      event_categories: [],
      thresholds: { budget_utilization: [0.5] },
      retry_policy: { max_retries: 2 },
      headers: { 'X-Team': '********' },
    });
    await holdfast.reserve(tenant, 10);
    await endedDeliveries(holdfast, id, 1);
    expect(receiver.received.at(-1)?.headers).toMatchObject({ 'x-team': 'payments' });
  });

  test('the options of a subscription show, are changed, and filter what it gets', async () => {
    const id = await subscribe(holdfast, tenant, `${receiver.url}/options`, {
      event_types: ['reservation.denied', 'budget.frozen'],
    });
    const path = `/ops/webhooks/${id}/options`;
    expectStatus(
      await holdfast.admin('PUT', path, {
        end_on_gone: true,
        payload_filter: { state: 'FROZEN' },
        used_amounts: [{ unit: 'USD_MICROCENTS', amount: 1_250_000_000 }],
      }),
      200,
    );
    await browser.visit(holdfast.url, `/webhooks/${id}`, 'state: FROZEN', async (page) => {
      await page.getByText('when the endpoint answers 410 Gone').waitFor();
      await page.getByText('$12.50').waitFor();
      expect(await page.getByText('each threshold of a budget').count()).toBe(0);
      await send(page, 'Options', 'Change the options', async (dialog) => {
        await dialog.getByText('Nothing changes yet').waitFor();
        await dialog.getByLabel('Thresholds as amounts').fill('50,000');
        await dialog.getByText('An amount has a unit').waitFor();
        await dialog.getByLabel('Thresholds as amounts').fill('0 tokens');
        await refused(dialog, 'Change the options', /used_amounts/);
        await dialog
          .getByLabel('Thresholds as amounts')
          .fill('$12.50\n50,000 tokens\n9,007,199,254,740,991 risk points');
        await dialog.getByLabel('Only with the unit').selectOption('tokens');
        await dialog.getByLabel('Only with the kind of action').fill('llm.completion');
        await dialog.getByLabel('Only with the state').fill('');
        await dialog.getByLabel('Thresholds of budgets').selectOption('only the first time in a period');
        await dialog.getByLabel('Events per request').fill('50');
        await dialog
          .getByLabel('If the endpoint answers 410 Gone')
          .selectOption('it is a failure as any other');
        await dialog.getByRole('row', { name: 'Only with the state FROZEN none' }).waitFor();
        await expectAccessible(page);
      });
      await page.getByText('kind of action: llm.completion').waitFor();
      await page.getByText('each threshold of a budget').waitFor();
      await page.getByText('50 events a request at most').waitFor();
      await page.getByText('$12.50, 50,000 tokens, 9,007,199,254,740,991 risk points').waitFor();
      expect(await page.getByText('when the endpoint answers 410 Gone').count()).toBe(0);
    });
    expect(await read(path)).toEqual({
      subscription_id: id,
      end_on_gone: false,
      events_per_request: 50,
      thresholds_once_a_period: true,
      payload_filter: { unit: 'TOKENS', action_kind: 'llm.completion' },
      used_amounts: [
        { unit: 'USD_MICROCENTS', amount: 1_250_000_000 },
        { unit: 'TOKENS', amount: 50_000 },
        { unit: 'RISK_POINTS', amount: 9_007_199_254_740_991 },
      ],
    });
    const ofSystem = await subscribe(holdfast, SYSTEM, `${receiver.url}/options`);
    await browser.visit(holdfast.url, `/webhooks/${ofSystem}`, 'Subscription', async (page) => {
      await page.getByRole('button', { name: 'Options' }).click();
      expect(await page.getByLabel('Thresholds as amounts').isDisabled()).toBe(true);
    });
  });

  test('a delivery shows its request and each attempt, and is sent again', async () => {
    receiver.react = (response) => response.writeHead(503).end('<b>no disk</b>');
    const id = await subscribe(holdfast, tenant, `${receiver.url}/fails`, {
      retry_policy: { max_retries: 0 },
    });
    await holdfast.reserve(tenant, 10);
    const [failed] = await endedDeliveries(holdfast, id, 1);
    receiver.react = (response) => response.writeHead(204).end();
    await browser.visit(holdfast.url, `/webhooks/${id}`, 'reservation.denied', async (page) => {
      await page.getByRole('button', { name: 'reservation.denied' }).click();
      const panel = page.getByRole('dialog', { name: 'reservation.denied' });
      await panel.getByText('the endpoint answered 503').waitFor();
      await panel.getByLabel('The last answer').getByText('<b>no disk</b>', { exact: true }).waitFor();
      await panel.getByText(`POST ${receiver.url}/fails`).waitFor();
      await panel.getByText('BUDGET_NOT_FOUND').first().waitFor();
      await expectAccessible(page);
      await panel.getByRole('button', { name: 'Send again' }).click();
      await page.getByRole('dialog').last().getByRole('button', { name: 'Send', exact: true }).click();
      await panel.getByText('204').waitFor();
      expect(await panel.getByLabel('The last answer').count()).toBe(0);
      await page.getByRole('link', { name: failed.event_id }).last().click();
      await page.getByRole('dialog').getByText('By', { exact: true }).waitFor();
    });
    expect((await deliveries(holdfast, id)).map(({ status }) => status)).toEqual(['SUCCESS', 'FAILED']);
  });

  test('a subscription says why it was stopped, and its deliveries that they were never tried', async () => {
    const gone = await subscribe(holdfast, tenant, `${receiver.url}/gone`);
    receiver.react = (response) => response.writeHead(410).end();
    expectStatus(await holdfast.admin('PUT', `/ops/webhooks/${gone}/options`, { end_on_gone: true }), 200);
    await holdfast.reserve(tenant, 10);
    await endedDeliveries(holdfast, gone, 1);
    await browser.visit(holdfast.url, `/webhooks/${gone}`, 'the endpoint answered 410 Gone', async (page) => {
      await page.getByText('Disabled, because the endpoint answered 410 Gone').waitFor();
      // What looks like a link leads to the delivery.
      const row = page.getByRole('row').filter({ hasText: 'reservation.denied' });
      await row.getByText('410').waitFor();
      expect(await row.getByRole('link').count()).toBe(0);
    });
    receiver.react = (response) => response.writeHead(204).end();
    const paused = await subscribe(holdfast, tenant, `${receiver.url}/paused`);
    const path = `/v1/admin/webhooks/${paused}`;
    let answer = (): void => undefined;
    receiver.react = (response) => {
      answer = () => void response.writeHead(204).end();
    };
    await holdfast.reserve(tenant, 10);
    await holdfast.reserve(tenant, 11);
    await eventually('one delivery to be on its way, and one to wait', async () => {
      const isSent = receiver.received.some(({ path: at }) => at === '/paused');
      return isSent && (await deliveries(holdfast, paused)).length === 2;
    });
    expectStatus(await holdfast.admin('PATCH', path, { status: 'PAUSED' }), 200);
    receiver.react = (response) => response.writeHead(204).end();
    answer();
    const rows = await endedDeliveries(holdfast, paused, 2);
    const untried = rows.find(({ attempts }) => attempts === 0);
    expect(untried).toMatchObject({ status: 'FAILED' });
    await browser.visit(
      holdfast.url,
      `/webhooks/${paused}?delivery=${untried?.delivery_id}`,
      'It was never tried',
      async (page) => {
        await page.getByText('never tried', { exact: true }).waitFor();
        await page.getByText(/^Paused, /).waitFor();
      },
    );
  });

  test('every dialog is readable on a narrow screen, and nothing spills out of its place', async () => {
    const { id, key } = await holdfast.createTenant({ name: 'x'.repeat(60) });
    const scope = `tenant:${id}/workspace:${'w'.repeat(60)}`;
    const unit = 'USD_MICROCENTS';
    await holdfast.createBudget({ id, key }, scope.slice(`tenant:${id}`.length), 9_007_199_254_740_993n, {
      unit,
    });
    const rule = { every: 'hour', length_hours: 6, time_zone: 'America/Argentina/ComodRivadavia' };
    const limit = { unit, amount: 123_456_789_012 };
    const template = { tenant_id: id, scope_pattern: `tenant:${id}/agent:*`, unit, allocated: limit };
    expectStatus(
      await holdfast.admin('PUT', '/ops/budget-templates/each', {
        ...template,
        windows: [{ name: 'w'.repeat(32), limit, ...rule }],
      }),
      201,
    );
    const policy = { tenant_id: id, name: 'p'.repeat(60), scope_pattern: `tenant:${id}/*` };
    expectStatus(
      await holdfast.admin('POST', '/v1/admin/policies', {
        ...policy,
        action_quotas: [{ action_kind: 'message.email.send', max_calls: 50, window: 'per_day_tumbling' }],
      }),
      201,
    );
    const hook = await subscribe(holdfast, { id, key }, `${receiver.url}/${'h'.repeat(80)}`);
    const narrow = { looks: [{ colorScheme: 'dark', width: 390 }] } as const;
    for (const [path, text, buttons] of [
      [
        `/tenants/${id}`,
        'w'.repeat(32),
        [
          ...['Create key', 'Create template', 'Edit each', 'Delete each', 'Create policy'],
          ...[`Edit ${policy.name}`, 'Change the limits', 'Change the settings', 'Close tenant'],
        ],
      ],
      [
        `/budgets/${unit}?scope=${scope}`,
        'Figures',
        ['Fund or reset', 'Overdraft limit', 'Freeze', 'Change the period', 'Change the windows'],
      ],
      [`/webhooks/${hook}`, 'Subscription', ['Test', 'Edit', 'Options', 'Replay', 'Pause', 'Rotate secret']],
    ] as const) {
      await browser.visit(
        holdfast.url,
        path,
        text,
        async (page) => {
          expect(await spilling(page)).toEqual([]);
          for (const button of buttons) {
            await page.getByRole('button', { name: button, exact: true }).first().click();
            const dialog = page.getByRole('dialog').last();
            await dialog.getByRole('button', { name: 'Cancel' }).waitFor();
            expect({ button, spills: await spilling(page) }).toEqual({ button, spills: [] });
            if (button === buttons[0]) {
              await expectAccessible(page);
            }
            await dialog.getByRole('button', { name: 'Cancel' }).click();
            await dialog.waitFor({ state: 'detached' });
          }
        },
        narrow,
      );
    }
  });

  test("a tenant's settings and expiry policy are changed; a lease beyond the longest is refused", async () => {
    await browser.visit(holdfast.url, `/tenants/${tenant.id}`, 'It expires by itself', async (page) => {
      await send(page, 'Change the settings', 'Change the settings', async (dialog) => {
        await dialog.getByLabel('Lease in ms', { exact: true }).fill('90000000');
        await refused(dialog, 'Change the settings', /default_reservation_ttl_ms/);
        await dialog.getByLabel('Lease in ms', { exact: true }).fill('120000');
        await dialog.getByLabel('Name').fill('Renamed');
        await dialog.getByLabel('If nobody settles a reservation').selectOption('It waits for an operator');
        await dialog.getByLabel('If a commit costs more').selectOption('Reject');
        await dialog.getByRole('row', { name: 'If a commit costs more Allow if available Reject' }).waitFor();
        await expectAccessible(page);
      });
      await page.getByRole('heading', { name: 'Renamed' }).waitFor();
      await page.getByText('It waits for an operator').waitFor();
    });
    expect(await read(`/v1/admin/tenants/${tenant.id}`)).toMatchObject({
      name: 'Renamed',
      default_reservation_ttl_ms: 120_000,
      default_commit_overage_policy: 'REJECT',
      reservation_expiry_policy: 'MANUAL_CLEANUP',
    });
  });

  test("a tenant's limits are changed and left to the deployment again", async () => {
    const { id } = await holdfast.createTenant();
    const limits = async (): Promise<Json> => (await read(`/ops/tenants/${id}/limits`)).limits;
    await browser.visit(holdfast.url, `/tenants/${id}`, 'Live holds', async (page) => {
      await send(page, 'Change the limits', 'Change the limits', async (dialog) => {
        await dialog.getByLabel('Budgets').fill('x');
        await dialog.getByText('Budgets: a whole number').waitFor();
        await dialog.getByLabel('Budgets').fill('2000000000000');
        await refused(dialog, 'Change the limits', /budgets/);
        await dialog.getByLabel('Budgets').fill('250,000');
        await dialog.getByLabel('Stored bytes').fill('5000000000');
        await dialog.getByRole('row', { name: 'Budgets none 250,000' }).waitFor();
      });
      await page.getByText('250,000 its own').waitFor();
      expect(await limits()).toMatchObject({
        budgets: { limit: 250_000, source: 'tenant' },
        stored_bytes: { limit: 5_000_000_000 },
        policies: { source: 'deployment' },
      });
      await send(page, 'Change the limits', 'Change the limits', (dialog) =>
        dialog.getByLabel('Budgets').fill(''),
      );
    });
    expect((await limits()).budgets).toMatchObject({ source: 'deployment' });
  });
});
