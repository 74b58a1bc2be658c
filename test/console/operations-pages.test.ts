import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { budgetKey } from '../../src/redis/keyspace.js';
import { VIEWER_API_KEY } from '../support/console-client.js';
import {
  ATTACK,
  ConsoleBrowser,
  describeInBrowser,
  expectAccessible,
  SHORT_ATTACK,
  WIDE_AND_NARROW,
  WITHOUT_BROWSER,
} from '../support/console-browser.js';
import { Webhook } from 'standardwebhooks';
import { eventually } from '../support/eventually.js';
import { ADMIN_API_KEY, expectStatus, Holdfast, type Json, type TestTenant } from '../support/holdfast.js';
import { expectPicture } from '../support/pictures.js';
import { type RedisServer, startRedis } from '../support/redis-server.js';
import { StoredHolds } from '../support/stored-holds.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';
import {
  allowLoopback,
  deliveries,
  endedDeliveries,
  subscribe,
  subscription,
  SYSTEM,
} from '../webhooks/dispatching.js';

const FAILING = { retry_policy: { max_retries: 1, initial_delay_ms: 60_000, max_delay_ms: 60_000 } };

describeInBrowser(`the pages of operations${WITHOUT_BROWSER}`, () => {
  const browser = new ConsoleBrowser();
  let redis: RedisServer;
  let holdfast: Holdfast;
  let receiver: WebhookReceiver;
  let stored: StoredHolds;
  let tenant: TestTenant;
  let works: string;
  let fails: string;

  beforeAll(async () => {
    redis = await startRedis();
    stored = new StoredHolds(redis.url);
    holdfast = await Holdfast.start({
      REDIS_URL: redis.url,
      HOLDFAST_ROLES: 'api,dispatcher',
      webhookPollMs: 20,
      VIEWER_API_KEY,
    });
    receiver = await WebhookReceiver.start();
    receiver.react = (response, { path }) => response.writeHead(path === '/broken' ? 500 : 204).end();
    await allowLoopback(holdfast);
    tenant = await holdfast.createTenant();
    const budgets = { event_types: ['budget.created'] };
    const texts = { name: ATTACK, description: `About ${ATTACK}` };
    works = await subscribe(holdfast, tenant, `${receiver.url}/works`, { ...budgets, ...texts });
    // Sent without the check against the protocol's documents, which allow fewer characters in URLs.
    await fetch(`${holdfast.url}/v1/admin/webhooks?tenant_id=${tenant.id}`, {
      method: 'POST',
      headers: { 'x-admin-api-key': ADMIN_API_KEY, 'content-type': 'application/json' },
      body: JSON.stringify({ url: `${receiver.url}/?${SHORT_ATTACK}`, event_types: ['tenant.closed'] }),
    });
    fails = await subscribe(holdfast, SYSTEM, `${receiver.url}/broken`, { ...budgets, ...FAILING });
    await holdfast.createBudget(tenant, '', 100);
    await holdfast.createBudget(tenant, '/workspace:prod', 100);
    await endedDeliveries(holdfast, works, 2);
    await eventually('both attempts fail', async () =>
      (await deliveries(holdfast, fails)).every(({ status }) => status === 'RETRYING'),
    );
  });

  afterAll(async () => {
    await holdfast?.stop();
    await receiver?.stop();
    stored?.close();
    await redis?.stop();
  });

  const visit = (
    path: string,
    text: string,
    use?: Parameters<ConsoleBrowser['visit']>[3],
    settings?: Parameters<ConsoleBrowser['visit']>[4],
  ): Promise<void> => browser.visit(holdfast.url, path, text, use, settings);

  test('subscriptions and deliveries show wide and light, narrow and dark', async () => {
    const settings = { looks: WIDE_AND_NARROW };
    await visit(
      '/webhooks',
      ATTACK,
      async (page) => {
        await page.getByText('the system', { exact: true }).waitFor();
        await page.getByText(`/?${SHORT_ATTACK}`).waitFor();
        await page.getByLabel('URL or id contains').fill('broken');
        await page.waitForURL(/search=broken/);
        await page.getByText('1 row', { exact: true }).waitFor();
      },
      settings,
    );
    await visit(
      `/webhooks/${fails}?status=RETRYING`,
      '2 rows',
      async (page) => {
        expect(await page.getByText('budget.created').count()).toBe(3);
        await page.getByText('500').first().waitFor();
      },
      settings,
    );
  });

  test('an event says who was told of it, or of how many subscriptions none was', async () => {
    const other = await holdfast.createTenant();
    const newest = async (of: TestTenant, type: string): Promise<string> => {
      const path = `/v1/admin/events?tenant_id=${of.id}&event_type=${type}&limit=1`;
      return expectStatus(await holdfast.admin('GET', path), 200).events[0].event_id as string;
    };
    const answers = [
      [tenant, 'budget.created', `${receiver.url}/works`],
      [tenant, 'api_key.created', 'None of the 3 subscriptions that there are was told of it'],
      [other, 'api_key.created', 'The one subscription that there is was not told of it'],
    ] as const;
    for (const [of, type, text] of answers) {
      await visit(`/events?event=${await newest(of, type)}`, text);
    }
  });

  test('a viewer sees a subscription without controls that change it', async () => {
    await visit(
      `/webhooks/${works}`,
      'Deliveries',
      async (page) => {
        await page.getByText(`About ${ATTACK}`).waitFor();
        await page.getByRole('button', { name: 'budget.created' }).nth(1).waitFor();
        // Those of the rows show a delivery.
        const buttons = await page.getByRole('main').getByRole('button').allInnerTexts();
        expect(buttons).toEqual(['budget.created', 'budget.created']);
      },
      { key: VIEWER_API_KEY },
    );
  });

  test('an operator tests, pauses, resumes and replays a subscription, and rotates its secret', async () => {
    const state = async (): Promise<Json> => (await subscription(holdfast, works)).status;
    await visit(`/webhooks/${works}`, '2 rows', async (page) => {
      const confirm = async (open: string, action = open): Promise<void> => {
        await page.getByRole('button', { name: open, exact: true }).click();
        await page.getByRole('dialog').getByRole('button', { name: action, exact: true }).click();
      };
      await confirm('Test', 'Send');
      await page.getByText('The test event arrived').waitFor();
      expect(receiver.received.at(-1)?.body).toContain('system.webhook_test');

      await confirm('Pause');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      expect(await state()).toBe('PAUSED');
      await confirm('Resume');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      expect(await state()).toBe('ACTIVE');

      await page.getByRole('button', { name: 'Replay', exact: true }).click();
      await page.getByLabel('From').fill('');
      await expectAccessible(page);
      await page.getByRole('dialog').getByRole('button', { name: 'Replay' }).click();
      await page.getByText('2 of 2 events attempted').waitFor();
      expect(await page.getByRole('progressbar', { name: 'Replay' }).getAttribute('aria-valuenow')).toBe('2');
      expect(new URL(page.url()).searchParams.get('replay')).toMatch(/^rpl_/);
      await endedDeliveries(holdfast, works, 4);

      await confirm('Rotate secret', 'Rotate');
      const secret = await page.getByRole('status').filter({ hasText: 'whsec_' }).innerText();
      await page.getByRole('button', { name: 'I have copied it' }).click();
      await confirm('Test', 'Send');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      const { headers, body } = receiver.received.at(-1) as (typeof receiver.received)[number];
      expect(() => new Webhook(secret).verify(body, headers)).not.toThrow();
    });
  });

  test('a run of the verification finds drift, names its scope and says what to do', async () => {
    const scope = `tenant:${tenant.id}/workspace:prod`;
    const key = budgetKey(stored.tagOfTenant(tenant.id), 'TOKENS', scope);
    await visit(
      `/verify?tenant=${tenant.id}`,
      'Not verified from this page yet',
      async (page) => {
        await page.getByRole('button', { name: 'Verify this tenant' }).click();
        await page.getByText('The ledger adds up').waitFor();
        await page.getByText('1 of 1 tenants').waitFor();
        await page.getByLabel('Only the tenant').fill('');
        await stored.redis.hincrby(key, 'reserved', 7);
        await stored.redis.hincrby(key, 'remaining', -7);
        await page.getByRole('button', { name: 'Verify all tenants' }).click();
        await page.getByText('1 of 2 budgets drift').waitFor();
        const row = page.getByRole('row').filter({ hasText: '/workspace:prod' });
        expect((await row.innerText()).split('\t').slice(2, 5)).toEqual(['7', '0', '7']);
        await page.getByText('Take the difference from reserved').waitFor();
        await page.getByRole('link', { name: 'Webhooks' }).click();
        await page.goBack();
        await page.getByText('1 of 2 budgets drift').waitFor();
      },
      { looks: WIDE_AND_NARROW },
    );
    expect(
      expectStatus(await holdfast.admin('GET', `/ops/verify?tenant=${tenant.id}`), 200).drift,
    ).toMatchObject([{ scope, kind: 'RESERVED', difference: 7 }]);
  });

  test('an operator creates a policy, and closes a tenant, with a preview of what ends with it', async () => {
    const closing = await holdfast.fundedTenant(100, { name: ATTACK });
    await subscribe(holdfast, closing, `${receiver.url}/works`);
    await subscribe(holdfast, SYSTEM, `${receiver.url}/told`, {
      event_types: ['reservation.released_via_tenant_cascade'],
    });
    const held = await holdfast.hold(closing, 40);
    await visit(`/tenants/${closing.id}`, 'No policies', async (page) => {
      const dialog = page.getByRole('dialog');
      await page.getByRole('button', { name: 'Create policy' }).click();
      await page.getByLabel('Name').fill(ATTACK);
      await page.getByLabel('Tokens a call').fill('4,096');
      await page.getByLabel('Commits a minute').fill('30');
      for (const [kind, most, window] of [
        ['message.email.send', '50', 'a day'],
        ['high_risk', '2', 'a run'],
      ] as const) {
        await page.getByRole('button', { name: 'Add quota' }).click();
        await page.getByLabel('Kind or risk class').last().fill(kind);
        await page.getByLabel('Actions', { exact: true }).last().fill(most);
        await page.getByLabel('In', { exact: true }).last().selectOption(window);
      }
      await expectAccessible(page);
      await dialog.getByRole('button', { name: 'Create policy' }).click();
      const effects = 'at most 4,096 tokens a call, 30 commits a minute';
      await page.getByText(`${effects}, 50 message.email.send a day, 2 high_risk a run`).waitFor();
      await page.getByRole('row').filter({ hasText: effects }).getByText(ATTACK).waitFor();
      const { policies } = expectStatus(
        await holdfast.admin('GET', `/v1/admin/policies?tenant_id=${closing.id}`),
        200,
      );
      expect(policies).toMatchObject([
        {
          name: ATTACK,
          scope_pattern: `tenant:${closing.id}/*`,
          caps: { max_tokens: 4096 },
          rate_limits: { max_commits_per_minute: 30 },
          action_quotas: [{ action_kind: 'message.email.send', max_calls: 50, window: 'per_day_tumbling' }],
          risk_class_quotas: [{ risk_class: 'high_risk', max_calls: 2, window: 'per_run' }],
        },
      ]);

      await page.getByRole('button', { name: 'Close tenant' }).click();
      for (const [part, count] of [
        ['Live holds', '1 released'],
        ['Budgets', '1 closed'],
        ['API keys', '1 revoked'],
        ['Subscriptions', '1 disabled'],
      ]) {
        await dialog.getByRole('row', { name: `${part} ${count}` }).waitFor();
      }
      await expectAccessible(page);
      await dialog.getByLabel('Id of the tenant').fill(closing.id);
      await dialog.getByRole('button', { name: 'Close the tenant' }).click();
      await page.getByText('4 of 4 closed').waitFor();
      await page.getByText('Nothing is open any more').waitFor();
      expect(new URL(page.url()).searchParams.get('closing')).toBe('4');
      expect(await page.getByRole('button', { name: 'Create policy' }).count()).toBe(0);
    });
    const path = `/v1/admin/tenants/${closing.id}`;
    expect(expectStatus(await holdfast.admin('GET', path), 200).status).toBe('CLOSED');
    expect(expectStatus(await holdfast.admin('GET', `/ops/reservations/${held}`), 200).state).toBe(
      'RELEASED',
    );
  });

  /** The content of the README's picture, which must always be the same. */
  async function fillAcme(): Promise<void> {
    const acme = { id: 'acme', key: '' };
    expectStatus(await holdfast.admin('POST', '/v1/admin/tenants', { tenant_id: 'acme', name: 'Acme' }), 201);
    const client = { ...acme, key: await holdfast.createKey('acme') };
    const unit = 'USD_MICROCENTS';
    for (const [below, dollars, spent, held] of [
      ['', 5000, 0, 0],
      ['/workspace:prod', 3000, 0, 0],
      ['/workspace:prod/agent:researcher', 800, 512, 240],
      ['/workspace:prod/agent:summarizer', 400, 96, 38],
      ['/workspace:prod/agent:translator', 1200, 310, 655],
      ['/workspace:staging', 250, 12, 4],
      ['/workspace:staging/agent:evaluator', 100, 61, 33],
    ] as const) {
      const cents = (amount: number): Json => ({ unit, amount: amount * 100_000_000 });
      await holdfast.createBudget(acme, below, dollars * 100_000_000, { unit });
      const levels = [...below.matchAll(/\/(\w+):(\w+)/g)].map(
        ([, level = '', name]) => [level, name] as const,
      );
      const subject = { tenant: 'acme', ...(Object.fromEntries(levels) as Record<string, string>) };
      for (const [amount, isSpent] of [
        [spent, true],
        [held, false],
      ] as const) {
        if (amount > 0) {
          const more = { subject, estimate: cents(amount), ttl_ms: 3_600_000 };
          const id = await holdfast.hold(client, 0, more);
          if (isSpent) {
            expectStatus(await holdfast.commit(client, id, 0, { actual: cents(amount) }), 200);
          }
        }
      }
    }
  }

  test('the budgets look as in the pictures of README, in light and dark colours', async () => {
    await fillAcme();
    for (const colorScheme of ['light', 'dark'] as const) {
      const settings = { colorScheme, viewport: { width: 1280, height: 600 } };
      const { page, complaints, context } = await browser.enter(
        holdfast.url,
        '/budgets?tenant_id=acme&sort_by=scope',
        settings,
      );
      await page.getByText('7 rows').waitFor();
      await expectPicture(page, `console-${colorScheme}`);
      expect(complaints).toEqual([]);
      await context.close();
    }
  });
});
