import { Injectable } from '@nestjs/common';
import { IsIn } from 'class-validator';
import type { Answer } from '../../answers/index.js';
import { patternsText, type Tenants } from '../../auth/index.js';
import { fingerprintOf, parseScopePath, tenantOfScope, type Unit, UNITS } from '../../ledger/index.js';
import {
  cleanupIndexKey,
  RedisService,
  SkippedRecords,
  tagOfTenant,
  ttlIndexKey,
} from '../../redis/index.js';
import { Length, PageCursor, pageEnd, PageLimit, placeAfter, type Position } from '../../wire/index.js';

/** Query of GET /ops/budgets/holds. */
export class BudgetHoldsQueryDto {
  @Length(1, 1024)
  scope!: string;

  @IsIn(UNITS)
  unit!: Unit;

  @PageLimit(200)
  limit?: number;

  @PageCursor()
  cursor?: string;
}

type BudgetHold = Answer<'BudgetHoldList'>['holds'][number];

export type BudgetHolds = Answer<'BudgetHoldList'>;

const DEFAULT_LIMIT = 50;
/** Entries that one script examines: about a millisecond of Redis' time. */
const EXAMINED_A_RUN = 200;
/** A page of a budget with few of the partition's holds ends after this many. */
const EXAMINED_A_PAGE = 20_000;
/** The indexes of a partition in the order in which they are read, and whether their holds expire by themselves. */
const INDEXES = [
  { name: 'ttl', keyOf: ttlIndexKey, expires: true },
  { name: 'cleanup', keyOf: cleanupIndexKey, expires: false },
] as const;

/** The live holds of a budget by their reclaim deadlines, for operators. Those that only a cleanup ends come last. */
@Injectable()
export class BudgetHoldsService {
  constructor(
    private readonly redis: RedisService,
    private readonly skipped: SkippedRecords,
  ) {}

  /**
   * @param tenants that the operator is confined to
   * @throws Refusal INVALID_REQUEST; StoreUnavailable
   */
  async list(
    { scope: text, unit, limit = DEFAULT_LIMIT, cursor }: BudgetHoldsQueryDto,
    tenants: Tenants,
  ): Promise<BudgetHolds> {
    const scope = parseScopePath(text);
    const tenantId = tenantOfScope(scope) ?? '';
    const tag = tagOfTenant(tenantId, this.redis.partitions);
    const list = fingerprintOf({ list: 'budget holds', scope, unit });
    let place = placeOf(placeAfter(list, cursor, (at) => placeOf(at) !== undefined));
    const holds: BudgetHold[] = [];
    let [examined, visible] = [0, 0];
    while (place !== undefined && holds.length < limit && examined < EXAMINED_A_PAGE) {
      const { index, ms, id }: Place = place;
      const { keyOf, expires } = INDEXES[index] as (typeof INDEXES)[number];
      const {
        walkedMs,
        walkedId = '',
        ...run
      } = await this.redis.queries.call(
        'list_holds',
        { deadlineIndex: keyOf(tag) },
        {
          tenantId,
          scope,
          unit,
          tenants: patternsText(tenants),
          walkedMs: ms,
          walkedId: id,
          examine: EXAMINED_A_RUN,
          limit: limit - holds.length,
        },
      );
      for (const { reservationId } of run.damaged) {
        this.skipped.skip('reservation', reservationId);
      }
      for (const { reservationId, amount, expiresAtMs, deadlineMs, chargeOnExpiry } of run.holds) {
        holds.push({
          reservation_id: reservationId,
          amount: { unit, amount: BigInt(amount) },
          expires_at_ms: expiresAtMs,
          reclaim_at_ms: deadlineMs,
          expires_by_itself: expires,
          ...(chargeOnExpiry === undefined
            ? {}
            : { charge_on_expiry: { unit, amount: BigInt(chargeOnExpiry) } }),
        });
      }
      examined += run.examined;
      visible += run.visible;
      place = walkedMs === undefined ? startOf(index + 1) : { index, ms: walkedMs, id: walkedId };
    }
    return { scope, unit, holds, examined: visible, ...pageEnd(list, place && positionOf(place)) };
  }
}

/** Where a walk through the indexes of a partition has got to: after this deadline and reservation, both empty at the start. */
interface Place {
  readonly index: number;
  readonly ms: string;
  readonly id: string;
}

const startOf = (index: number): Place | undefined =>
  index < INDEXES.length ? { index, ms: '', id: '' } : undefined;

const positionOf = ({ index, ms, id }: Place): Position => ({ value: `${INDEXES[index]?.name} ${ms}`, id });

/** Undefined if no walk can have got there. */
function placeOf(position: Position | undefined): Place | undefined {
  if (position === undefined) {
    return startOf(0);
  }
  const [, name, ms = ''] = /^(\w+) (\d{0,15})$/.exec(String(position.value)) ?? [];
  const index = INDEXES.findIndex((known) => known.name === name);
  return index < 0 ? undefined : { index, ms, id: position.id };
}
