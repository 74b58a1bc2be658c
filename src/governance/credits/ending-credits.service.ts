import { Injectable } from '@nestjs/common';
import type { Answer } from '../../answers/index.js';
import { partitionsOfTenants, patternsText, type Tenants } from '../../auth/index.js';
import { DAY_MS, type Unit } from '../../ledger/index.js';
import { creditIndexKey, RedisService, SkippedRecords, tagOfPartition } from '../../redis/index.js';
import { instantMs, IsDateTime, Length, Optional, timeOf } from '../../wire/index.js';

/** Query of GET /ops/credits/ending. */
export class EndingCreditsQueryDto {
  @Optional(Length(1, 64))
  tenant_id?: string;

  /** By default, a week from now. */
  @Optional(IsDateTime())
  ends_before?: string;
}

type EndingCredits = Answer<'EndingCreditList'>;

const WEEK_MS = 7 * DAY_MS;
const MOST_LISTED = 100;
/** Budgets with credits of which something happens by then. */
const MOST_EXAMINED = 20_000;
/** One to two milliseconds of Redis' time. */
const EXAMINED_A_RUN = 100;

/** What ends soon, across budgets. */
@Injectable()
export class EndingCreditsService {
  constructor(
    private readonly redis: RedisService,
    private readonly skipped: SkippedRecords,
  ) {}

  /**
   * Budgets by the first end of a credit.
   * @param tenants that the operator is confined to
   * @throws StoreUnavailable
   */
  async list(
    { tenant_id: tenantId = '', ends_before: before }: EndingCreditsQueryDto,
    tenants: Tenants,
  ): Promise<EndingCredits> {
    const untilMs = instantMs(before) ?? this.redis.clock.ledgerMs() + WEEK_MS;
    const found: EndingCredits['budgets'][number][] = [];
    let [examined, visible] = [0, 0];
    let isCut = false;
    for (const partition of partitionsOfTenants(
      tenantId === '' ? tenants : [tenantId],
      this.redis.partitions,
    )) {
      if (isCut) {
        break;
      }
      let [walkedMs, walkedMember, hasMore] = ['', '', false];
      do {
        const read = await this.redis.queries.call(
          'ending_credits',
          { creditIndex: creditIndexKey(tagOfPartition(partition)) },
          {
            tenantId,
            tenants: patternsText(tenants),
            untilMs,
            walkedMs,
            walkedMember,
            // At the bound, none: whether any follow is still asked.
            examine: Math.min(EXAMINED_A_RUN, MOST_EXAMINED - examined),
          },
        );
        read.damaged.forEach(({ budget }) => this.skipped.skip('credit', budget));
        found.push(
          ...read.ending.map((row) => ({
            tenant_id: row.tenantId,
            scope: row.scope,
            unit: row.unit as Unit,
            credits: row.credits,
            first_ends_at: timeOf(String(row.endsMs)),
            remaining: { unit: row.unit as Unit, amount: BigInt(row.remaining) },
          })),
        );
        examined += read.examined;
        visible += read.visible;
        walkedMs = read.walkedMs ?? '';
        walkedMember = read.walkedMember ?? '';
        hasMore = read.more;
        isCut = hasMore && examined === MOST_EXAMINED;
      } while (hasMore && !isCut);
    }
    found.sort((one, other) => Date.parse(one.first_ends_at) - Date.parse(other.first_ends_at));
    return {
      ends_before: timeOf(String(untilMs)),
      budgets: found.slice(0, MOST_LISTED),
      examined: visible,
      has_more: isCut || found.length > MOST_LISTED,
    };
  }
}
