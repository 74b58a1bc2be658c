import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { HoldfastConfig } from '../config/index.js';
import { eventLogKey, FIELD, journalKey, type RedisService, tenantIndexKey } from '../redis/index.js';
import type { Instruments } from '../telemetry/index.js';
import { SharedRedisTime, type Turn } from '../worker/index.js';
import { type ArchiveFolder, DAY_MS, dayOf } from './archive-folder.js';
import type { ARCHIVE_METRICS } from './archive.metrics.js';
import type { ArchivePartition } from './archive-partition.js';
import { chargeRow } from './charge-row.js';
import { compareEntries, type EntryId, FIRST, msOf } from './entry-chain.js';
import { type Cell, rowsText, type RowsText } from './parquet-tasks.js';
import type { ParquetThread } from './parquet-thread.js';
import { STREAM_COLUMNS } from './stream-columns.js';

const READ_A_RUN = 100;
/** The entry of a change is appended in the same run of a script, or a moment later where Redis reads its clock for each command. */
const ENTRY_WITHIN_MS = 1000;

/** Rows of a day that are not written yet, and the parts that are. */
interface DayRows {
  rows: Cell[][];
  texts: RowsText[];
  /** Paths. */
  parts: string[];
}

/**
 * Archives the charges of a partition from before the archive began: those of which Redis still has the record of the reservation, or the event of
 * the debit. The journal has no entries of them any more, so what only these told is missing: request and trace, the debt, the actual amount of a
 * capped charge, and of a debit its mask and its idempotency key.
 *
 * It runs before the first file of the partition, so that the journal still has the entries next to `began`, whose charges come later. The files
 * are a chain from the first entry to `began`, one for each day. If the process dies, it is done again from the first day that has no file.
 */
export class Backfill {
  private readonly days = new Map<string, DayRows>();
  private buffered = 0;
  private count = 0;
  private readonly time: SharedRedisTime;

  constructor(
    private readonly redis: RedisService,
    private readonly folder: ArchiveFolder,
    private readonly thread: ParquetThread,
    private readonly counts: Instruments<typeof ARCHIVE_METRICS>,
    private readonly config: HoldfastConfig,
    private readonly partition: ArchivePartition,
    private readonly began: EntryId,
  ) {
    this.time = new SharedRedisTime({ share: config.archiveLateTimeShare / 100, paused: () => undefined });
  }

  /** @returns whether it is done; not if the turn ends */
  async run(turn: Turn): Promise<boolean> {
    const later = await this.entriesAfter();
    const start = await this.archivedEnd();
    try {
      const isRead =
        (await this.readReservations(later, msOf(start), turn)) &&
        (await this.readDebits(later, start, turn));
      if (!isRead) {
        return false;
      }
      await this.writeDays(start);
      this.counts.rows.inc({ stream: 'charges' }, this.count);
      return true;
    } finally {
      await Promise.all(
        [...this.days.values()].flatMap(({ parts }) => parts.map((path) => rm(path, { force: true }))),
      );
    }
  }

  /** What the entries just after `began` are about, reservations without their prefix. */
  private async entriesAfter(): Promise<ReadonlySet<string>> {
    const entries = await this.redis.client.xrange(
      journalKey(this.partition.tag),
      `(${this.began}`,
      String(msOf(this.began) + ENTRY_WITHIN_MS),
    );
    return new Set(
      entries.flatMap(([, flat]) =>
        flat.flatMap((name, index) =>
          index % 2 === 0 && (name === 'id' || name === 'event') ? [flat[index + 1] as string] : [],
        ),
      ),
    );
  }

  /**
   * Where an earlier archive of the partition ends. Its files have more than Redis has now, so what they cover is left to them: the archiver may
   * have been away for so long that its place was given up.
   */
  private async archivedEnd(): Promise<EntryId> {
    const day = (await this.folder.days()).at(-1);
    const manifest = day === undefined ? undefined : await this.folder.manifest(day);
    const start = manifest?.files.charges?.ends[this.partition.code] ?? FIRST;
    const partition = this.partition.number;
    const { links } = await this.folder.chain({ kind: 'charges', partition, start, cursor: this.began });
    return links.reduce((end, { to }) => (compareEntries(to, end) > 0 ? to : end), start);
  }

  private async readReservations(later: ReadonlySet<string>, afterMs: number, turn: Turn): Promise<boolean> {
    let place = { tenant: '', walkedMs: '', walkedId: '' };
    do {
      if (!turn.goesOn()) {
        return false;
      }
      const {
        entries,
        tenant = '',
        walkedMs = '',
        walkedId = '',
      } = await this.time.run(this.partition.tag, () =>
        this.redis.scripts.call(
          'backfill_page',
          { tenantIndex: tenantIndexKey(this.partition.tag) },
          { ...place, examine: READ_A_RUN, withMetadata: this.config.archiveMetadata ? 1 : 0 },
        ),
      );
      for (const { reservationId, fields } of entries) {
        const endedMs = Number(fields.get(FIELD.ended_at) ?? NaN);
        const isLater = later.has(reservationId) || later.has(reservationId.slice('rsv_00'.length));
        if (endedMs > afterMs && endedMs <= msOf(this.began) && !isLater) {
          await this.add(endedMs, fields);
        }
      }
      place = { tenant, walkedMs, walkedId };
    } while (place.tenant !== '');
    return true;
  }

  private async readDebits(later: ReadonlySet<string>, start: EntryId, turn: Turn): Promise<boolean> {
    const log = eventLogKey(this.partition.tag);
    for (let after = start; ;) {
      if (!turn.goesOn()) {
        return false;
      }
      const events = await this.time.run(this.partition.tag, () =>
        this.redis.client.xrange(log, `(${after}`, String(msOf(this.began)), 'COUNT', READ_A_RUN),
      );
      for (const [event, flat] of events) {
        const fields = new Map<string, string>();
        for (let index = 0; index < flat.length; index += 2) {
          fields.set(flat[index] as string, flat[index + 1] as string);
        }
        if (fields.get('ty') === 'custom.direct_debit.applied' && !later.has(event)) {
          fields.set('event', event);
          fields.set(FIELD.charged, fields.get('charged') ?? '0');
          fields.set('debt', fields.get('debt_incurred') ?? '0');
          if (!this.config.archiveMetadata) {
            fields.delete(FIELD.metadata);
          }
          await this.add(msOf(event), fields);
        }
      }
      const last = events.at(-1)?.[0];
      if (last === undefined || events.length < READ_A_RUN) {
        return true;
      }
      after = last;
    }
  }

  private async add(endedMs: number, fields: ReadonlyMap<string, string>): Promise<void> {
    const day = dayOf(endedMs);
    const ofDay = this.days.get(day) ?? { rows: [], texts: [], parts: [] };
    this.days.set(day, ofDay);
    // No entry of a journal has this form.
    ofDay.rows.push(chargeRow(this.partition.number, `${endedMs}-b${this.count++}`, new Map(fields)));
    if (ofDay.rows.length >= READ_A_RUN) {
      toText(ofDay);
    }
    if (++this.buffered >= this.config.archiveFileRows) {
      await this.flush();
    }
  }

  private async flush(): Promise<void> {
    for (const [day, ofDay] of this.days) {
      toText(ofDay);
      if (ofDay.texts.length > 0) {
        const path = join(
          this.folder.stagingOf('charges', this.partition.number),
          `.${day}-${ofDay.parts.length}`,
        );
        ofDay.parts.push(path);
        await this.thread.run({
          kind: 'write',
          path,
          columns: STREAM_COLUMNS.charges,
          parts: ofDay.texts,
        });
        ofDay.texts = [];
      }
    }
    this.buffered = 0;
  }

  private async writeDays(start: EntryId): Promise<void> {
    await this.flush();
    const lastDay = dayOf(msOf(this.began));
    const days = [...new Set([...this.days.keys(), lastDay])].sort();
    let from = start;
    for (const day of days) {
      const to = day === lastDay ? this.began : `${Date.parse(day) + DAY_MS - 1}-0`;
      if (compareEntries(to, from) > 0) {
        await this.thread.run({
          kind: 'rewrite',
          path: this.folder.stagedPath('charges', this.partition.number, from, to),
          columns: STREAM_COLUMNS.charges,
          inputs: this.days.get(day)?.parts ?? [],
          sortBy: ['recorded_at'],
        });
        from = to;
      }
    }
  }
}

function toText(ofDay: DayRows): void {
  if (ofDay.rows.length > 0) {
    ofDay.texts.push(rowsText(STREAM_COLUMNS.charges, ofDay.rows));
    ofDay.rows = [];
  }
}
