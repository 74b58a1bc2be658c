import { expect } from '@jest/globals';
import { expectStatus, type Holdfast, type Json, type TestTenant } from './holdfast.js';

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

export const timeOf = (ms: number): string => new Date(ms).toISOString();

/** Advances the clock of a deployment, and goes on if an answer comes before it is there, as on a busy machine. */
export async function advanceClock(
  holdfast: Holdfast,
  by: { to: string } | { by_ms: number },
): Promise<Json> {
  const advance = async (body: Json): Promise<Json> =>
    expectStatus(await holdfast.admin('POST', '/ops/test-clock/advance', body), 200);
  let clock = await advance(by);
  while (clock.status !== 'READY') {
    clock = await advance({ to: clock.advancing_to as string });
  }
  return clock;
}

/** The test clock of an instance. */
export class TestClock {
  constructor(private readonly holdfast: () => Holdfast) {}

  async read(): Promise<Json> {
    return expectStatus(await this.holdfast().admin('GET', '/ops/test-clock'), 200);
  }

  async nowMs(): Promise<number> {
    return Date.parse((await this.read()).now as string);
  }

  /** Creates a tenant with a budget in tokens, and a key that no advance lets expire. */
  async tenant(allocated: number, settings: Record<string, unknown> = {}): Promise<TestTenant> {
    const { id } = await this.holdfast().createTenant({ max_reservation_ttl_ms: DAY_MS, ...settings });
    const key = await this.holdfast().createKey(id, { expires_at: '2199-01-01T00:00:00Z' });
    const tenant = { id, key };
    await this.holdfast().createBudget(tenant, '', allocated);
    return tenant;
  }

  advanceTo(ms: number, through: Holdfast = this.holdfast()): Promise<Json> {
    return advanceClock(through, { to: timeOf(ms) });
  }

  advanceBy(ms: number): Promise<Json> {
    return advanceClock(this.holdfast(), { by_ms: ms });
  }

  async hold(tenant: TestTenant, ttlMs: number, more: Record<string, unknown> = {}): Promise<Json> {
    const body = { ttl_ms: ttlMs, grace_period_ms: 0, ...more };
    return expectStatus(await this.holdfast().reserve(tenant, 1, body), 200);
  }
}

export async function stateOf(holdfast: Holdfast, id: string): Promise<string> {
  return expectStatus(await holdfast.admin('GET', `/ops/reservations/${id}`), 200).state as string;
}

/** The tenant's events of these types, or of all types, oldest first. */
export async function eventsOf(holdfast: Holdfast, tenant: TestTenant, ...types: string[]): Promise<Json[]> {
  const found: Json[] = [];
  let cursor = '';
  do {
    const path = `/v1/admin/events?tenant_id=${tenant.id}&limit=100${cursor}`;
    const page = expectStatus(await holdfast.admin('GET', path), 200);
    found.push(...(page.events as Json[]));
    cursor = page.has_more === true ? `&cursor=${encodeURIComponent(page.next_cursor as string)}` : '';
  } while (cursor !== '');
  return found
    .reverse()
    .filter(({ event_type: type }) => types.length === 0 || types.includes(type as string));
}

export async function expectSound(holdfast: Holdfast, tenant: TestTenant): Promise<void> {
  const report = await holdfast.admin('GET', `/ops/verify?tenant=${tenant.id}`);
  expect(expectStatus(report, 200)).toMatchObject({ ok: true, drift: [], unreadable: [] });
}
