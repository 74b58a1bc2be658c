import { expectRefusal, expectStatus, type Answer, type Json, type TestTenant } from './holdfast.js';
import { StoredHolds } from './stored-holds.js';
import type { Governance } from './use-governance.js';

/** More pages than any test has: a cursor that never advances must not loop forever. */
const MAX_PAGES = 500;

/** Sends GET /v1/reservations to the instance of one test file. */
export class ReservationLists {
  constructor(private readonly on: Governance) {}

  async newTenant(allocated: number | bigint = 1_000_000_000): Promise<TestTenant> {
    const tenant = await this.on.holdfast.fundedTenant(allocated);
    return tenant;
  }

  async hold(
    tenant: TestTenant,
    more: Record<string, unknown> = {},
    amount: number | bigint = 10,
  ): Promise<string> {
    return await this.on.holdfast.hold(tenant, amount, more);
  }

  list(tenant: TestTenant, query = ''): Promise<Answer> {
    return this.on.holdfast.call('GET', `/v1/reservations?${query}`, { key: tenant.key });
  }

  async page(tenant: TestTenant, query = ''): Promise<Json> {
    return expectStatus(await this.list(tenant, query), 200);
  }

  async idsOf(tenant: TestTenant, query = ''): Promise<string[]> {
    return (await this.page(tenant, query)).reservations.map((row: Json) => row.reservation_id as string);
  }

  /** All rows, following the cursor from page to page. */
  async walk(tenant: TestTenant, query: string): Promise<Json[]> {
    const rows: Json[] = [];
    for (let cursor = '', pages = 0; pages < MAX_PAGES; pages += 1) {
      const body = await this.page(tenant, `${query}${cursor}`);
      rows.push(...body.reservations);
      if (body.has_more !== 'next_cursor' in body) {
        throw new Error(`has_more is ${body.has_more} and next_cursor is ${body.next_cursor}`);
      }
      if (body.has_more !== true) {
        return rows;
      }
      cursor = `&cursor=${body.next_cursor}`;
    }
    throw new Error(`the pages of ${query} do not end`);
  }

  /** The Redis of this instance, to change stored times. The caller must close it. */
  stored(): StoredHolds {
    return new StoredHolds(this.on.redis.url);
  }
}

/** Expects a refusal that names the invalid query parameter. */
export function expectBadParameter(answer: Answer, parameter: string): void {
  const { message } = expectRefusal(answer, 400, 'INVALID_REQUEST');
  if (!String(message).includes(parameter)) {
    throw new Error(`the refusal does not name ${parameter}: ${message}`);
  }
}
