import { Injectable } from '@nestjs/common';
import { partitionsOfTenants, patternsText, type Tenants } from '../auth/index.js';
import { eventIdOf } from '../events/index.js';
import { parseAmount } from '../ledger/index.js';
import { eventLogKey, partitionCode, RedisService, streamBound, tagOf } from '../redis/index.js';
import { csvCell, stringifyJson } from '../wire/index.js';

export const EXPIRATION_STATES = ['EXPIRED', 'QUARANTINED'] as const;
export type ExpirationState = (typeof EXPIRATION_STATES)[number];

/** Entries of a log that one script examines: about a millisecond of Redis' time. */
export const EXAMINED_A_RUN = 250;
/** Rows that one partition buffers while partitions are merged. With 256 partitions, that is a few megabytes. */
const ROWS_A_RUN = 50;
/**
 * An entry's id is a few milliseconds later than the time by which its script decided, because the script ran in between. Reading this
 * far past the end of the window also finds the entries of a script that stalled.
 */
export const SLACK_MS = 10_000;

/** One expiration from the event log. */
export interface Expiration {
  readonly eventId: string;
  readonly entryId: string;
  readonly partition: number;
  /** When it happened, ms. */
  readonly atMs: number;
  readonly state: ExpirationState;
  /** The event's fields, named by lua/lib/event_writer.lua. */
  readonly event: ReadonlyMap<string, string>;
}

/** Where a page ended. */
export type ExpirationPlace = Pick<Expiration, 'atMs' | 'partition' | 'entryId'>;

export interface ExpirationSearch {
  readonly fromMs: number | undefined;
  readonly toMs: number | undefined;
  readonly tenantId: string | undefined;
  /** That the operator is confined to. */
  readonly tenants: Tenants;
  readonly scope: string | undefined;
  readonly state: ExpirationState;
}

/**
 * The expirations in a window, ordered by time, partition and entry: the event logs of all partitions, merged. Each log is already in
 * order, so it is read only as far as the consumer reads, and nothing is sorted.
 */
@Injectable()
export class ExpirationFeed {
  constructor(private readonly redis: RedisService) {}

  async *read(search: ExpirationSearch, after?: ExpirationPlace): AsyncGenerator<Expiration> {
    const { tenantId, tenants } = search;
    const partitions = partitionsOfTenants(
      tenantId === undefined ? tenants : [tenantId],
      this.redis.partitions,
    );
    const logs = partitions.map(
      (partition) => new PartitionExpirations(this.redis, partition, search, after),
    );
    await Promise.all(logs.map((log) => log.fill()));
    for (;;) {
      const first = earliest(logs);
      if (first?.head === undefined) {
        return;
      }
      yield first.head;
      first.shift();
      await first.fill();
    }
  }
}

function earliest(logs: readonly PartitionExpirations[]): PartitionExpirations | undefined {
  let first: PartitionExpirations | undefined;
  for (const log of logs) {
    // Logs are in the order of their partitions, so the first one with the earliest time is the next in order.
    if (log.head !== undefined && (first?.head === undefined || log.head.atMs < first.head.atMs)) {
      first = log;
    }
  }
  return first;
}

/** One partition's expirations, buffered a few rows ahead of the consumer. */
class PartitionExpirations {
  private rows: Expiration[] = [];
  private next = 0;
  private start: string;
  private ended = false;
  private readonly fromMs: number | undefined;

  constructor(
    private readonly redis: RedisService,
    private readonly partition: number,
    private readonly search: ExpirationSearch,
    after: ExpirationPlace | undefined,
  ) {
    this.fromMs = search.fromMs;
    if (after !== undefined) {
      // At the instant where the previous page ended, lower partitions are done.
      this.fromMs = Math.max(after.atMs + (partition < after.partition ? 1 : 0), search.fromMs ?? -Infinity);
    }
    this.start =
      after?.partition === partition
        ? `(${after.entryId}`
        : this.fromMs === undefined
          ? '-'
          : streamBound(this.fromMs);
  }

  get head(): Expiration | undefined {
    return this.rows[this.next];
  }

  shift(): void {
    this.next += 1;
  }

  /** Reads until a row is buffered or the log ends. */
  async fill(): Promise<void> {
    while (this.head === undefined && !this.ended) {
      await this.readNext();
    }
  }

  private async readNext(): Promise<void> {
    const { toMs, tenantId = '', tenants, scope = '', state } = this.search;
    const code = partitionCode(this.partition);
    const { nextStart, rows } = await this.redis.queries.call(
      'expirations',
      { eventLog: eventLogKey(tagOf(code)) },
      {
        start: this.start,
        stop: toMs === undefined ? '+' : streamBound(toMs + SLACK_MS),
        examine: EXAMINED_A_RUN,
        limit: ROWS_A_RUN,
        fromMs: this.fromMs ?? '-inf',
        toMs: toMs ?? '+inf',
        tenantId,
        tenants: patternsText(tenants),
        scope,
        state,
      },
    );
    this.start = nextStart ?? '';
    this.ended = nextStart === undefined;
    this.next = 0;
    this.rows = rows.map((row) => ({
      ...row,
      eventId: eventIdOf({ partition: code, entryId: row.entryId }),
      partition: this.partition,
    }));
  }
}

type Cell = string | number | bigint | undefined;

/** The members of a row in the order of the CSV columns, each with how to read it. Undefined where it does not apply. */
const COLUMNS: Readonly<Record<string, (expiration: Expiration) => Cell>> = {
  at_ms: ({ atMs }) => atMs,
  at: ({ atMs }) => new Date(atMs).toISOString(),
  state: ({ state }) => state,
  reservation_id: ({ event }) => event.get('reservation_id'),
  tenant_id: ({ event }) => event.get('tn'),
  scope: ({ event }) => event.get('sc'),
  unit: ({ event }) => event.get('unit'),
  amount: amountOf('estimated_amount'),
  created_at_ms: amountOf('created_at'),
  ttl_ms: amountOf('ttl_ms'),
  extensions_used: amountOf('extensions_used'),
  reason: ({ event }) => event.get('reason'),
  event_id: ({ eventId }) => eventId,
  request_id: ({ event }) => event.get('rq'),
  trace_id: ({ event }) => event.get('tr')?.split('-', 1)[0],
  charged: amountOf('charged'),
};

function amountOf(name: string): (expiration: Expiration) => Cell {
  return ({ event }) => {
    const text = event.get(name);
    return text === undefined ? undefined : parseAmount(text);
  };
}

/** One row as JSON text. */
export function rowJson(expiration: Expiration): string {
  return stringifyJson(
    Object.fromEntries(Object.entries(COLUMNS).map(([name, read]) => [name, read(expiration)])),
  );
}

export const CSV_HEAD = `${Object.keys(COLUMNS).join(',')}\r\n`;

/** One row as a line of CSV (RFC 4180). */
export function rowCsv(expiration: Expiration): string {
  return `${Object.values(COLUMNS)
    .map((read) => csvCell(read(expiration)))
    .join(',')}\r\n`;
}
