import { Inject, Injectable } from '@nestjs/common';
import { IsBoolean } from 'class-validator';
import type { Answer } from '../../answers/index.js';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import {
  DAY_MS,
  fingerprintOf,
  invalidField,
  oneLine,
  Refusal,
  TENANT_ID_PATTERN,
} from '../../ledger/index.js';
import {
  cleanupIndexKey,
  partitionOfTenant,
  RedisService,
  tagOfPartition,
  tenantKey,
  toStoreError,
} from '../../redis/index.js';
import {
  IsInt,
  Matches,
  MaxLength,
  Optional,
  type Origin,
  PageCursor,
  pageEnd,
  PageLimit,
  placeAfter,
  type Position,
} from '../../wire/index.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import { countExpiry, type ExpiryOutcome, outcomeOf } from '../expiry.metrics.js';

const YEAR_MS = 366 * DAY_MS;

/** Body of POST /ops/reservations/cleanup. Either `tenant_id` or `all_tenants` is required. */
export class CleanupDto {
  @Optional(Matches(TENANT_ID_PATTERN))
  tenant_id?: string;

  @Optional(IsBoolean())
  all_tenants?: boolean;

  @Optional(IsInt({ min: 0, max: YEAR_MS }))
  overdue_for_ms?: number;

  @PageLimit(1000)
  limit?: number;

  @Optional(IsBoolean())
  dry_run?: boolean;

  @Optional(MaxLength(256))
  reason?: string;

  @PageCursor()
  cursor?: string;
}

const DEFAULT_LIMIT = 100;
/** Entries that one run examines, and those that it judges: at most 2 ms of Redis' time. */
const EXAMINE = 200;
const CALL_SIZE = 20;
/** Entries that one request examines. A cleanup of one tenant also examines the reservations of others. */
const MOST_EXAMINED = 10_000;
/** Where a run ended: score and reservation id, in the order of the script's arguments. */
const PLACE = /^(\d{1,16}) (\S{1,64})$/;

type Place = readonly [walkedMs: string, walkedId: string];
const START: Place = ['', ''];

export type CleanedReservation = Answer<'CleanupReport'>['reservations'][number];

export type CleanupReport = Answer<'CleanupReport'>;

/** The operators' cleanup of reservations that the sweeper does not reclaim: those with MANUAL_CLEANUP whose grace period is over. */
@Injectable()
export class CleanupService {
  private readonly retentionMs: number = this.config.auditRetentionMs;

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  /**
   * Expires at most `limit` reservations in many short runs, oldest first within a partition. If a run fails, the results of earlier runs
   * stay. Repeating the request without the cursor starts over with what is left.
   * @throws Refusal INVALID_REQUEST (no tenant given, another list's cursor), TENANT_NOT_FOUND
   */
  async cleanup(request: CleanupDto, origin: Origin): Promise<CleanupReport> {
    const { cursor, limit = DEFAULT_LIMIT, dry_run: dryRun = false, tenant_id: tenantId = '' } = request;
    const [first, last] = await this.partitionsOf(request);
    const query = fingerprintOf({
      cleanup: true,
      tenantId,
      overdueForMs: request.overdue_for_ms ?? 0,
      dryRun,
    });
    const from = placeAfter(query, cursor, ({ value, id }) => isPlace(value, id, first, last));
    let place = from === undefined || from.id === '' ? START : (from.id.split(' ') as unknown as Place);
    const reservations: CleanedReservation[] = [];
    let examined = 0;
    for (let partition = from === undefined ? first : Number(from.value); partition <= last; partition += 1) {
      do {
        if (reservations.length >= limit || examined >= MOST_EXAMINED) {
          const next = { value: partition, id: place.join(' ').trim() };
          return { ...reportOf(request, examined, reservations), ...pageEnd(query, next) };
        }
        const run = await this.run(partition, place, Math.min(CALL_SIZE, limit - reservations.length), {
          request,
          origin,
        });
        examined += run.examined;
        reservations.push(...run.reservations);
        place = run.place;
      } while (place[0] !== '');
    }
    return { ...reportOf(request, examined, reservations), has_more: false };
  }

  /** The partitions to walk, from first to last. */
  private async partitionsOf({
    tenant_id: tenantId,
    all_tenants: all = false,
  }: CleanupDto): Promise<[number, number]> {
    if ((tenantId === undefined) !== all) {
      throw invalidField('tenant_id', 'tenant_id: name a tenant, or set all_tenants to true, but not both');
    }
    if (tenantId === undefined) {
      return [0, this.redis.partitions - 1];
    }
    const partition = partitionOfTenant(tenantId, this.redis.partitions);
    const known = await this.redis.client
      .exists(tenantKey(tagOfPartition(partition), tenantId))
      .catch((error: unknown) => {
        throw toStoreError(error);
      });
    if (known === 0) {
      throw new Refusal('TENANT_NOT_FOUND', 'there is no such tenant');
    }
    return [partition, partition];
  }

  private async run(
    partition: number,
    place: Place,
    limit: number,
    { request, origin: { keyId, requestId, trace } }: Asked,
  ): Promise<CleanupRun> {
    const {
      tenant_id: tenantId = '',
      overdue_for_ms: overdueForMs = 0,
      dry_run: dryRun = false,
      reason,
    } = request;
    const [walkedMs, walkedId] = place;
    const reply = await this.redis.scripts.call(
      'cleanup_reservations',
      { cleanupIndex: cleanupIndexKey(tagOfPartition(partition)) },
      {
        tenantId,
        overdueForMs,
        walkedMs,
        walkedId,
        examine: EXAMINE,
        limit,
        dryRun: dryRun ? 1 : 0,
        reason: oneLine(reason),
        retentionMs: this.retentionMs,
        requestId,
        trace,
        keyId,
      },
    );
    const reservations = reply.reservations.map(({ reservationId, ...outcome }) => {
      if (!dryRun) {
        countExpiry(this.metrics, 'cleanup', outcome, reply.nowMs);
      }
      return rowOf(reservationId, outcome);
    });
    return { place: [reply.walkedMs ?? '', reply.walkedId ?? ''], examined: reply.examined, reservations };
  }
}

interface Asked {
  readonly request: CleanupDto;
  readonly origin: Origin;
}

interface CleanupRun {
  readonly place: Place;
  readonly examined: number;
  readonly reservations: readonly CleanedReservation[];
}

function isPlace(value: Position['value'], id: string, first: number, last: number): boolean {
  return (
    typeof value === 'number' &&
    Number.isInteger(value) &&
    value >= first &&
    value <= last &&
    (id === '' || PLACE.test(id))
  );
}

function rowOf(
  reservationId: string,
  { word, detail = '', secondDetail: other = '' }: ExpiryOutcome,
): CleanedReservation {
  const outcome = outcomeOf(word);
  switch (outcome) {
    case 'EXPIRED':
    case 'WOULD_EXPIRE':
      return { reservation_id: reservationId, outcome, tenant_id: detail, reclaim_at_ms: Number(other) };
    case 'QUARANTINED':
      return {
        reservation_id: reservationId,
        outcome,
        detail,
        ...(other === '' ? {} : { tenant_id: other }),
      };
    default:
      return { reservation_id: reservationId, outcome, ...(detail === '' ? {} : { detail }) };
  }
}

/** For one tenant, only what the report lists counts as examined: an operator who is confined to it may not know how many holds others have. */
function reportOf(
  { tenant_id: tenantId, dry_run: dryRun = false }: CleanupDto,
  examined: number,
  reservations: readonly CleanedReservation[],
): Omit<CleanupReport, 'has_more'> {
  const outcomes: Record<string, number> = {};
  for (const { outcome } of reservations) {
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  }
  return {
    dry_run: dryRun,
    examined: tenantId === undefined ? examined : reservations.length,
    outcomes,
    reservations,
  };
}
