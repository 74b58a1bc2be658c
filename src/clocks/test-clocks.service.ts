import { Injectable } from '@nestjs/common';
import { IsString } from 'class-validator';
import { type Tenant, type TenantCreateDto, TenantsService } from '../governance/index.js';
import { randomBase62, Refusal, TooBusy } from '../ledger/index.js';
import {
  Records,
  RedisService,
  SYSTEM_OWNER,
  tenantKey,
  testClockKey,
  testClocksKey,
  testClockTenantsKey,
} from '../redis/index.js';
import { fieldOf, type Fields, instantMs, IsDateTime, Length, type Origin, timeOf } from '../wire/index.js';
import { ClockAdvance } from './clock-advance.js';

/** Body of POST /ops/test-clocks. */
export class TestClockCreateDto {
  @IsString()
  @Length(1, 256)
  name!: string;

  /** The instant at which the clock stands still. */
  @IsDateTime()
  now!: string;
}

/** Body of POST /ops/test-clocks/{clock_id}/advance. */
export class TestClockAdvanceDto {
  @IsDateTime()
  to!: string;
}

const MOST_CLOCKS = 100;
const MOST_TENANTS = 20;
const DAY_MS = 86_400_000;
/** How far one advance may go. */
const LONGEST_ADVANCE_MS = 366 * DAY_MS;
const LAST_INSTANT_MS = Date.parse('2200-01-01T00:00:00Z');
const CLOCK_ID = /^clk_[0-9A-Za-z]{16}$/;

/** A test clock as /ops/test-clocks shows it. */
export interface TestClock {
  readonly clock_id: string;
  readonly name: string;
  readonly status: 'READY' | 'ADVANCING';
  /** The instant that all tenants of the clock have reached. */
  readonly now: string;
  readonly advancing_to?: string;
  readonly tenants: readonly string[];
  readonly created_at: string;
}

/** Test clocks and their tenants. They exist only with HOLDFAST_TEST_CLOCKS=true. */
@Injectable()
export class TestClocksService {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly tenants: TenantsService,
    private readonly advances: ClockAdvance,
  ) {}

  /** @throws Refusal INVALID_REQUEST (also: there are as many clocks as there may be). */
  async create({ name, now }: TestClockCreateDto, origin: Origin): Promise<TestClock> {
    const instant = boundedInstant(now, 'now');
    const clockId = `clk_${randomBase62(16)}`;
    const reply = await this.redis.scripts.call(
      'create_test_clock',
      { testClock: testClockKey(this.systemTag, clockId), testClocks: testClocksKey(this.systemTag) },
      { clockId, name, instant, most: MOST_CLOCKS, ...origin },
    );
    if (reply.status === 'LIMIT_EXCEEDED') {
      throw new Refusal('INVALID_REQUEST', `there are ${reply.used} test clocks; delete one first`);
    }
    return clockOf(reply.record, []);
  }

  list(): Promise<TestClock[]> {
    return this.read('');
  }

  /** @throws Refusal NOT_FOUND */
  async get(clockId: string): Promise<TestClock> {
    const [clock] = CLOCK_ID.test(clockId) ? await this.read(clockId) : [];
    return clock ?? notFound();
  }

  /**
   * Creates a tenant whose time is that of the clock.
   * @throws Refusal NOT_FOUND, INVALID_REQUEST, LIMIT_EXCEEDED (the clock is being advanced, or the tenant is behind
   * it with more to do than one request may), DUPLICATE_RESOURCE (the tenant exists with another name or without
   * this clock).
   */
  async addTenant(
    clockId: string,
    request: TenantCreateDto,
    origin: Origin,
  ): Promise<{ created: boolean; tenant: Tenant }> {
    await this.get(clockId);
    const keys = this.keysOf(clockId);
    const joined = await this.redis.scripts.call(
      'join_test_clock',
      { testClock: keys.testClock, clockTenants: keys.clockTenants },
      { tenantId: request.tenant_id, most: MOST_TENANTS },
    );
    if (joined.status === 'NOT_FOUND') {
      return notFound();
    }
    if (joined.status === 'ADVANCING') {
      throw new TooBusy(`the clock is being advanced to ${timeOf(String(joined.toMs))}`, 1);
    }
    if (joined.status === 'LIMIT_EXCEEDED') {
      throw new Refusal('INVALID_REQUEST', `a test clock has at most ${MOST_TENANTS} tenants`);
    }
    try {
      const made = await this.tenants.create(request, origin, { clockId, nowMs: joined.clockNowMs });
      // An advance that began before the tenant existed passes it over, whether it has ended by now or not.
      const { now, advancing_to: target = now } = await this.get(clockId);
      const toMs = Date.parse(target);
      if (!(await this.advances.passAll([request.tenant_id], { clockId, toMs }, origin))) {
        throw new TooBusy(`the tenant has not reached ${target} yet`, 1);
      }
      return made;
    } catch (error) {
      if (error instanceof Refusal) {
        await this.forget(clockId, request.tenant_id, joined.joinedAtMs);
      }
      throw error;
    }
  }

  /** Removes a tenant from the clock if it was not created with it, and no other request has entered it meanwhile. */
  private async forget(clockId: string, tenantId: string, joinedAtMs: number): Promise<void> {
    const fields = await this.records.read(tenantKey(this.records.tagOfTenant(tenantId), tenantId));
    if (fields?.get('clock_id') !== clockId) {
      const { clockTenants } = this.keysOf(clockId);
      await this.redis.scripts.call('leave_test_clock', { clockTenants }, { tenantId, joinedAtMs });
    }
  }

  /**
   * Lets the time of all tenants of the clock pass up to an instant. If there is more to do than one request may take, the clock is still
   * ADVANCING afterwards, and a repetition continues.
   * @throws Refusal NOT_FOUND, INVALID_REQUEST (backwards, or too far at once).
   */
  async advance(clockId: string, { to }: TestClockAdvanceDto, origin: Origin): Promise<TestClock> {
    const toMs = boundedInstant(to, 'to');
    await this.get(clockId);
    const keys = this.keysOf(clockId);
    const begun = await this.redis.scripts.call(
      'begin_advance',
      { testClock: keys.testClock, clockTenants: keys.clockTenants },
      { toMs, longestMs: LONGEST_ADVANCE_MS, ...origin },
    );
    if (begun.status !== 'ADVANCING') {
      throw advanceRefusal(begun);
    }
    const complete = await this.advances.passAll(begun.tenants, { clockId, toMs }, origin);
    if (complete) {
      await this.redis.scripts.call('end_advance', { testClock: keys.testClock }, { toMs });
    }
    return this.get(clockId);
  }

  /** @throws Refusal NOT_FOUND, INVALID_REQUEST (a tenant of the clock is not closed). */
  async remove(clockId: string, origin: Origin): Promise<void> {
    const { tenants } = await this.get(clockId);
    const done: string[] = [];
    for (const tenant of tenants) {
      const fields = await this.records.read(tenantKey(this.records.tagOfTenant(tenant), tenant));
      if (fields?.get('clock_id') === clockId && fields.get('status') !== 'CLOSED') {
        throw new Refusal('INVALID_REQUEST', `close the clock's tenant ${tenant} first`, {
          tenant_id: tenant,
        });
      }
      if (fields !== undefined) {
        done.push(tenant);
      }
    }
    const reply = await this.redis.scripts.call('delete_test_clock', this.keysOf(clockId), {
      clockId,
      ...origin,
      rest: done,
    });
    if (reply.status === 'IN_USE') {
      throw new Refusal('INVALID_REQUEST', 'a tenant of the clock is being created');
    }
    if (reply.status === 'NOT_FOUND') {
      notFound();
    }
  }

  /** Known only once Redis is connected. */
  private get systemTag(): string {
    return this.records.tagOfTenant(SYSTEM_OWNER);
  }

  private keysOf(clockId: string): {
    readonly testClock: string;
    readonly testClocks: string;
    readonly clockTenants: string;
  } {
    return {
      testClock: testClockKey(this.systemTag, clockId),
      testClocks: testClocksKey(this.systemTag),
      clockTenants: testClockTenantsKey(this.systemTag, clockId),
    };
  }

  private async read(clockId: string): Promise<TestClock[]> {
    const { clocks } = await this.redis.scripts.call(
      'list_test_clocks',
      { testClocks: testClocksKey(this.systemTag) },
      { clockId },
    );
    return clocks.map(({ tenants, record }) => clockOf(record, tenants));
  }
}

function clockOf(fields: Fields, tenants: readonly string[]): TestClock {
  const target = fields.get('advancing_to');
  return {
    clock_id: fieldOf(fields, 'clock_id'),
    name: fieldOf(fields, 'name'),
    status: target === undefined ? 'READY' : 'ADVANCING',
    now: timeOf(fieldOf(fields, 'now')),
    ...(target !== undefined && { advancing_to: timeOf(target) }),
    tenants,
    created_at: timeOf(fieldOf(fields, 'created_at')),
  };
}

function notFound(): never {
  throw new Refusal('NOT_FOUND', 'there is no such test clock');
}

/** @throws Refusal INVALID_REQUEST */
function boundedInstant(text: string, field: string): number {
  const instant = instantMs(text) as number;
  if (instant < 0 || instant > LAST_INSTANT_MS) {
    throw new Refusal('INVALID_REQUEST', `${field} must be from 1970 to 2199`, { field });
  }
  return instant;
}

function advanceRefusal(
  reply:
    | { readonly status: 'NOT_FOUND' }
    | { readonly status: 'NOT_FORWARD' | 'TOO_FAR'; readonly clockNowMs: number },
): Error {
  if (reply.status === 'NOT_FOUND') {
    return new Refusal('NOT_FOUND', 'there is no such test clock');
  }
  const now = timeOf(String(reply.clockNowMs));
  return new Refusal(
    'INVALID_REQUEST',
    reply.status === 'TOO_FAR'
      ? `to must be at most 366 days after ${now}, where the clock stands`
      : `to must not be before ${now}: a test clock goes forward only`,
    { field: 'to' },
  );
}
