import { Injectable } from '@nestjs/common';
import { IsBoolean } from 'class-validator';
import type { Answer } from '../../answers/index.js';
import { partitionsOfTenants, patternsText, type Tenants } from '../../auth/index.js';
import { fingerprintOf, type Unit } from '../../ledger/index.js';
import {
  partitionCode,
  RedisService,
  SkippedRecords,
  tagOf,
  tagOfReservationId,
  ttlIndexKey,
} from '../../redis/index.js';
import {
  type Batch,
  Length,
  mergedPage,
  Optional,
  PageCursor,
  pageEnd,
  PageLimit,
  placeAfter,
  type Position,
} from '../../wire/index.js';

/** Query of GET /ops/holds. */
export class LiveHoldsQueryDto {
  @Optional(Length(1, 64))
  tenant_id?: string;

  /** Only holds that the sweeper should have expired. */
  @Optional(IsBoolean())
  overdue?: boolean;

  @PageLimit(200)
  limit?: number;

  @PageCursor()
  cursor?: string;
}

type LiveHold = Answer<'LiveHoldList'>['holds'][number];

export type LiveHolds = Answer<'LiveHoldList'>;

/** By deadline, partition and id: the order of the list. */
interface Place {
  readonly ms: number;
  readonly partition: string;
  readonly id: string;
}

const DEFAULT_LIMIT = 50;
const EXAMINED_A_PAGE = 20_000;
/** Entries that one script examines: about a millisecond of Redis' time. */
const EXAMINED_A_RUN = 200;
/** The share of a page that each partition fetches at a time while many are merged. */
const SHARE_MERGED = 1 / 8;
/** After every id in the order of bytes. */
const AFTER_ALL = '~';

/** The live holds of all tenants by their reclaim deadlines, for operators: what expires next, and what should have. */
@Injectable()
export class LiveHoldsService {
  constructor(
    private readonly redis: RedisService,
    private readonly skipped: SkippedRecords,
  ) {}

  /**
   * @param tenants that the operator is confined to
   * @throws Refusal INVALID_REQUEST; StoreUnavailable
   */
  async list(
    { limit = DEFAULT_LIMIT, cursor, ...query }: LiveHoldsQueryDto,
    tenants: Tenants,
  ): Promise<LiveHolds> {
    const { tenant_id: tenantId = '', overdue = false } = query;
    const list = fingerprintOf({ list: 'live holds', ...query, tenants });
    const after = placeAfter(list, cursor, (at) => this.placeOf(at) !== undefined);
    const toMs = overdue ? String(this.redis.clock.nowMs()) : '+inf';
    const numbers = partitionsOfTenants(tenantId === '' ? tenants : [tenantId], this.redis.partitions);
    const examine = numbers.length === 1 ? EXAMINED_A_RUN : Math.ceil((limit + 1) * SHARE_MERGED);
    let visible = 0;
    const readers = numbers.map((number) =>
      this.readerOf(
        partitionCode(number),
        { tenantId, tenants: patternsText(tenants), toMs, examine },
        after && this.placeOf(after),
        (count) => (visible += count),
      ),
    );
    const { rows, next } = await mergedPage<LiveHold, Place>(readers, {
      placeOf: ({ reclaim_at_ms: ms, reservation_id: id }) => placeAt(ms, id),
      isBefore,
      limit,
      maxExamined: EXAMINED_A_PAGE,
    });
    return { holds: rows, examined: visible, ...pageEnd(list, next && { value: next.ms, id: next.id }) };
  }

  private readerOf(
    partition: string,
    search: { tenantId: string; tenants: string; toMs: string; examine: number },
    after: Place | undefined,
    seen: (visible: number) => void,
  ): () => Promise<Batch<LiveHold, Place>> {
    let walkedMs = after === undefined ? '' : String(after.ms);
    let walkedId = after === undefined ? '' : idAfter(partition, after);
    return async () => {
      const read = await this.redis.queries.call(
        'list_live_holds',
        { ttlIndex: ttlIndexKey(tagOf(partition)) },
        { ...search, walkedMs, walkedId },
      );
      for (const { reservationId } of read.damaged) {
        this.skipped.skip('reservation', reservationId);
      }
      seen(read.visible);
      walkedMs = read.walkedMs ?? '';
      walkedId = read.walkedId ?? '';
      return {
        rows: read.holds.map((hold) => ({
          reservation_id: hold.reservationId,
          tenant_id: hold.tenantId,
          scope: hold.scope,
          amount: { unit: hold.unit as Unit, amount: BigInt(hold.amount) },
          created_at_ms: hold.createdAtMs,
          expires_at_ms: hold.expiresAtMs,
          reclaim_at_ms: hold.deadlineMs,
        })),
        reached: read.walkedMs === undefined ? undefined : { ms: Number(walkedMs), partition, id: walkedId },
        examined: read.examined,
      };
    };
  }

  private placeOf({ value, id }: Position): Place | undefined {
    return typeof value === 'number' &&
      value >= 0 &&
      tagOfReservationId(id, this.redis.partitions) !== undefined
      ? placeAt(value, id)
      : undefined;
  }
}

/** An id begins with `rsv_` and its partition. */
const placeAt = (ms: number, id: string): Place => ({ ms, partition: id.slice(4, 6), id });

function isBefore(one: Place, other: Place): boolean {
  if (one.ms !== other.ms) {
    return one.ms < other.ms;
  }
  return one.partition === other.partition ? one.id < other.id : one.partition < other.partition;
}

/** Where a partition goes on at the deadline of a place: of the partitions before it, all ids of that instant are listed. */
function idAfter(partition: string, { partition: reached, id }: Place): string {
  return partition === reached ? id : partition < reached ? AFTER_ALL : '';
}
