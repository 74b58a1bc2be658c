import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { VIEWER_API_KEY } from '../support/console-client.js';
import {
  ATTACK,
  ConsoleBrowser,
  describeInBrowser,
  expectAccessible,
  WITHOUT_BROWSER,
} from '../support/console-browser.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast } from '../support/holdfast.js';
import { type RedisServer, startRedis } from '../support/redis-server.js';
import { StoredHolds } from '../support/stored-holds.js';

describeInBrowser(`the page of the sweeper${WITHOUT_BROWSER}`, () => {
  const browser = new ConsoleBrowser();
  let redis: RedisServer;
  let stored: StoredHolds;
  let holdfast: Holdfast;
  let damaged: string;
  let partition: string;

  beforeAll(async () => {
    redis = await startRedis();
    stored = new StoredHolds(redis.url);
    holdfast = await Holdfast.start({
      REDIS_URL: redis.url,
      HOLDFAST_ROLES: 'api,sweeper',
      SWEEP_INTERVAL_MS: '50',
      VIEWER_API_KEY,
    });
    const tenant = await holdfast.fundedTenant(100);
    const hold = expectStatus(
      await holdfast.reserve(tenant, 10, { grace_period_ms: 0, idempotency_key: ATTACK }),
      200,
    );
    damaged = hold.reservation_id as string;
    partition = /^rsv_([0-9a-f]{2})/.exec(damaged)?.[1] as string;
    await stored.set(damaged, { am: 'many' });
    await stored.expireIn(damaged, -1000);
    await eventually('it is in quarantine', async () => (await quarantined()).includes(damaged));
  });

  afterAll(async () => {
    stored?.close();
    await holdfast?.stop();
    await redis?.stop();
  });

  async function quarantined(): Promise<string[]> {
    const { entries } = expectStatus(await holdfast.admin('GET', '/ops/quarantine'), 200);
    return entries.map(({ reservation_id: id }: { reservation_id: string }) => id);
  }

  test('shows partitions and instances, light and dark, wide and narrow', async () => {
    await browser.visit(
      holdfast.url,
      '/sweeper',
      '64 of 64',
      async (page) => {
        const cell = page.getByRole('button', { name: new RegExp(`^${partition}\\b`) });
        await cell.focus();
        await page.keyboard.press('Enter');
        await page.getByText('0, 0 due, 1 in quarantine').waitFor();
        expect(new URL(page.url()).searchParams.get('partition')).toContain(partition);
      },
      { looks: [{}, { colorScheme: 'dark' }, { width: 400 }] },
    );
  });

  test('a viewer sees the quarantine, also by URL, and decides nothing', async () => {
    await browser.visit(holdfast.url, `/reservations/${damaged}`, 'The record is damaged', async (page) => {
      await page.getByRole('link', { name: 'Waits for a decision' }).waitFor();
      await page.getByText(ATTACK, { exact: true }).waitFor();
    });
    const path = `/sweeper?reservation=${damaged}`;
    const { page, context } = await browser.enter(holdfast.url, path, { key: VIEWER_API_KEY });
    await page.getByText('Stored record').waitFor();
    await page.getByText(ATTACK).waitFor();
    expect(await page.title()).toBe('Sweeper · Holdfast');
    expect(await page.getByRole('button', { name: 'Release it as it is' }).count()).toBe(0);
    await context.close();
  });

  test('an operator releases a damaged reservation', async () => {
    const { page, complaints, context } = await browser.enter(holdfast.url, '/sweeper');
    await page.getByRole('button', { name: `Inspect ${damaged}` }).click();
    await page.getByLabel('Reason, for the audit log').fill('The record cannot be repaired');
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Release it as it is' }).click();
    await page.getByText('Nothing is in quarantine').waitFor();
    expect(await quarantined()).toEqual([]);
    expect(await stored.isIndexed(damaged)).toBe(false);
    expect(complaints).toEqual([]);
    await context.close();
  });
});
