import { expect } from '@jest/globals';
import { expectStatus, type Holdfast, type Json, newTenantId, type TestTenant } from './holdfast.js';

const START_MS = Date.parse('2026-01-10T12:00:00.000Z');
export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

/** A test clock of an instance. Times are in milliseconds from its start. */
export class TestClock {
  private constructor(
    private readonly holdfast: Holdfast,
    readonly id: string,
  ) {}

  static async create(holdfast: Holdfast, now = TestClock.at(0)): Promise<TestClock> {
    const made = await holdfast.admin('POST', '/ops/test-clocks', { name: 'a test', now });
    return new TestClock(holdfast, expectStatus(made, 201).clock_id as string);
  }

  static at(ms: number): string {
    return new Date(START_MS + ms).toISOString();
  }

  static msAt(ms: number): number {
    return START_MS + ms;
  }

  get path(): string {
    return `/ops/test-clocks/${this.id}`;
  }

  /** Creates a tenant of the clock with a budget in tokens. */
  async tenant(allocated: number, settings: Record<string, unknown> = {}): Promise<TestTenant> {
    const id = newTenantId();
    const body = { tenant_id: id, name: id, max_reservation_ttl_ms: DAY_MS, ...settings };
    expectStatus(await this.holdfast.admin('POST', `${this.path}/tenants`, body), 201);
    const tenant = { id, key: await this.holdfast.createKey(id) };
    await this.holdfast.createBudget(tenant, '', allocated);
    return tenant;
  }

  async advance(ms: number, through: Holdfast = this.holdfast): Promise<Json> {
    const answer = await through.admin('POST', `${this.path}/advance`, { to: TestClock.at(ms) });
    return expectStatus(answer, 200);
  }

  async hold(tenant: TestTenant, ttlMs: number, more: Record<string, unknown> = {}): Promise<Json> {
    const body = { ttl_ms: ttlMs, grace_period_ms: 0, ...more };
    return expectStatus(await this.holdfast.reserve(tenant, 1, body), 200);
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
