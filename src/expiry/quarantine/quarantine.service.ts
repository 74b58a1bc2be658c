import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { fingerprintOf, oneLine, Refusal } from '../../ledger/index.js';
import {
  partitionCode,
  quarantineKey,
  RedisService,
  reservationKey,
  tagOf,
  tagOfReservationId,
} from '../../redis/index.js';
import { decodeCursor, encodeCursor, PageSelection } from '../../wire/index.js';
import { ExpiryMetrics } from '../expiry.metrics.js';
import type { QuarantineDecisionDto, QuarantineListQueryDto } from './quarantine.dto.js';

const DAY_MS = 86_400_000;
const DEFAULT_LIMIT = 50;
/** Entries that one look at a partition's quarantine takes. */
const SCAN_COUNT = 500;

export interface QuarantineEntry {
  readonly reservation_id: string;
  readonly reason: string;
  readonly quarantined_at_ms: number;
}

/** What a release gives back at which budget, and what it cannot. */
export interface Returnable {
  readonly returns: readonly { readonly scope: string; readonly unit: string; readonly amount: bigint }[];
  readonly keeps: readonly { readonly scope: string; readonly reason: string }[];
}

export interface QuarantinedReservation extends QuarantineEntry, Returnable {
  readonly defect?: string;
  readonly record: Readonly<Record<string, string>>;
}

export interface QuarantineDecision extends Returnable {
  readonly reservation_id: string;
  readonly action: 'retry' | 'release';
  readonly outcome: string;
  readonly detail?: string;
  readonly decided_at_ms: number;
}

export interface QuarantineList {
  readonly entries: readonly QuarantineEntry[];
  readonly has_more: boolean;
  readonly next_cursor?: string;
}

/** Reservations that could not be settled and wait for an operator: which there are, what is wrong, and what shall become of them. */
@Injectable()
export class QuarantineService {
  private readonly retentionMs: number;

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: ExpiryMetrics,
    @Inject(CONFIG) config: HoldfastConfig,
  ) {
    this.retentionMs = config.auditRetentionDays * DAY_MS;
  }

  /**
   * Newest first, over all partitions. It reads the whole quarantine, which an operator keeps small, but keeps no more than a page.
   * @throws Refusal INVALID_REQUEST when the cursor belongs to another list.
   */
  async list({
    reason,
    cursor = '',
    limit = DEFAULT_LIMIT,
  }: QuarantineListQueryDto): Promise<QuarantineList> {
    const query = fingerprintOf({ list: 'quarantine', reason });
    const after = cursor === '' ? undefined : decodeCursor(query, cursor);
    const selection = new PageSelection<QuarantineEntry>(
      {
        direction: 'desc',
        valueOf: (entry) => entry.quarantined_at_ms,
        idOf: (entry) => entry.reservation_id,
      },
      limit,
      after,
    );
    for (let partition = 0; partition < this.redis.partitions; partition += 1) {
      for await (const entry of this.entriesOf(tagOf(partitionCode(partition)))) {
        if (reason === undefined || entry.reason === reason) {
          selection.offer(entry);
        }
      }
    }
    const next = selection.next();
    const entries = selection.rows();
    return next === undefined
      ? { entries, has_more: false }
      : { entries, has_more: true, next_cursor: encodeCursor(query, next) };
  }

  /** @throws Refusal NOT_FOUND when it is not in quarantine. */
  async inspect(reservationId: string): Promise<QuarantinedReservation> {
    const [word, entry = '', defect = '', ...rest] = await this.redis.scripts.run(
      'inspect_quarantined',
      [reservationKey(this.tagOf(reservationId), reservationId)],
      [reservationId],
    );
    if (word !== 'QUARANTINED') {
      throw notInQuarantine(reservationId);
    }
    const { returnable, next } = returnableOf(rest);
    const record: Record<string, string> = {};
    for (let index = next; index < rest.length; index += 2) {
      record[rest[index] as string] = rest[index + 1] as string;
    }
    return { ...entryOf(reservationId, entry), ...(defect === '' ? {} : { defect }), ...returnable, record };
  }

  /** @throws Refusal NOT_FOUND when it is not in quarantine. */
  async decide(
    reservationId: string,
    { action, reason }: QuarantineDecisionDto,
    requestId: string,
    trace: string,
  ): Promise<QuarantineDecision> {
    const [word, nowMs, ...rest] = await this.redis.scripts.run(
      'decide_quarantined',
      [reservationKey(this.tagOf(reservationId), reservationId)],
      [reservationId, action, oneLine(reason), this.retentionMs, requestId, trace],
    );
    const decided = { reservation_id: reservationId, action, decided_at_ms: Number(nowMs) };
    switch (word) {
      case 'RETRIED': {
        this.metrics.record('access', rest, nowMs);
        this.metrics.decided(action, rest[0] ?? '');
        const detail = rest[0] === 'SKIP' || rest[0] === 'QUARANTINED' ? rest[1] : undefined;
        return {
          ...decided,
          outcome: rest[0] ?? '',
          ...(detail === undefined ? {} : { detail }),
          returns: [],
          keeps: [],
        };
      }
      case 'RELEASED':
        this.metrics.decided(action, 'RELEASED');
        return { ...decided, outcome: 'RELEASED', ...returnableOf(rest.slice(1)).returnable };
      default:
        throw notInQuarantine(reservationId);
    }
  }

  private tagOf(reservationId: string): string {
    const tag = tagOfReservationId(reservationId, this.redis.partitions);
    if (tag === undefined) {
      throw notInQuarantine(reservationId);
    }
    return tag;
  }

  /** A scan may show an entry twice while the hash grows; it is told once. */
  private async *entriesOf(tag: string): AsyncGenerator<QuarantineEntry> {
    const seen = new Set<string>();
    let cursor = '0';
    do {
      const from = cursor;
      const [next, flat]: [string, string[]] = await this.redis.queries.command((client) =>
        client.hscan(quarantineKey(tag), from, 'COUNT', SCAN_COUNT),
      );
      for (let index = 0; index < flat.length; index += 2) {
        const id = flat[index] as string;
        if (!seen.has(id)) {
          seen.add(id);
          yield entryOf(id, flat[index + 1] as string);
        }
      }
      cursor = next;
    } while (cursor !== '0');
  }
}

function entryOf(reservationId: string, text: string): QuarantineEntry {
  const [reason = '', at = ''] = text.split(' ');
  return { reservation_id: reservationId, reason, quarantined_at_ms: Number(at) };
}

/** Reads `amount unit returned_count scope* kept_count (scope reason)*`, and says where the rest begins. */
function returnableOf(texts: readonly string[]): { returnable: Returnable; next: number } {
  const [amount = '', unit = '', count = '0'] = texts;
  const scopes = texts.slice(3, 3 + Number(count));
  const keptAt = 3 + scopes.length + 1;
  const kept = Number(texts[keptAt - 1]);
  const keeps = Array.from({ length: kept }, (_, index) => ({
    scope: texts[keptAt + 2 * index] as string,
    reason: texts[keptAt + 2 * index + 1] as string,
  }));
  return {
    returnable: { returns: scopes.map((scope) => ({ scope, unit, amount: BigInt(amount) })), keeps },
    next: keptAt + 2 * kept,
  };
}

function notInQuarantine(reservationId: string): Refusal {
  return new Refusal('NOT_FOUND', `the reservation ${reservationId} is not in quarantine`, {
    reservation_id: reservationId,
  });
}
