import {
  archiveLeaseKey,
  auditLogKey,
  eventLogKey,
  journalKey,
  partitionCode,
  type ScriptAnswer,
  tagOf,
} from '../redis/index.js';
import { ARCHIVED, type Archived, compareEntries, type EntryId, FIRST } from './entry-chain.js';

/** How far one stream of a partition is archived, as of the last reply. */
export interface StreamState {
  cursor: EntryId;
  throughMs: number;
  /** Of the oldest entry that is not archived. */
  oldestMs: number | undefined;
  waiting: number;
  /** The last of the entries after the cursor that were removed. */
  lost: EntryId | undefined;
}

const STREAM_KEYS: Readonly<Record<Archived, (tag: string) => string>> = {
  charges: journalKey,
  events: eventLogKey,
  audit: auditLogKey,
};

/** Partitions with times of their own. */
const SPREAD = 16;

/** A partition that this instance archives. */
export class ArchivePartition {
  readonly code: string;
  readonly tag: string;
  readonly leaseKey: string;
  /** Of the archive, as Redis has it. */
  epoch = 0;
  /** Whether it is known that Redis was not put back to before the end of the files, which `ArchiveEpochs` finds out. */
  isChecked = false;
  nowMs = 0;
  isBusy = false;
  readonly streams: Readonly<Record<Archived, StreamState>>;
  /** By which share of the time its idle streams note their end earlier, so that partitions do not all do so in one moment. */
  private readonly spread: number;

  constructor(readonly number: number) {
    this.code = partitionCode(number);
    this.spread = (number % SPREAD) / (2 * SPREAD);
    this.tag = tagOf(this.code);
    this.leaseKey = archiveLeaseKey(this.tag);
    const begin = (): StreamState => ({
      cursor: FIRST,
      throughMs: 0,
      oldestMs: undefined,
      waiting: 0,
      lost: undefined,
    });
    this.streams = { charges: begin(), events: begin(), audit: begin() };
  }

  keyOf(kind: Archived): string {
    return STREAM_KEYS[kind](this.tag);
  }

  see(reply: ScriptAnswer<'archive_lease', 'HELD'>): void {
    this.nowMs = reply.nowMs;
    if (reply.lease === 'taken' || reply.epoch !== this.epoch) {
      this.isChecked = false;
    }
    this.epoch = reply.epoch;
    for (const { name, cursor, throughMs = 0, oldestMs, waiting, lost } of reply.streams) {
      const stream = this.streams[name as Archived];
      this.isChecked &&= compareEntries(cursor, stream.cursor) >= 0;
      Object.assign(stream, { cursor, throughMs, oldestMs, waiting, lost });
    }
  }

  /** The streams from which a file is to be written now, or whose end is to be noted. */
  due({ settleMs, flushMs, fileRows }: { settleMs: number; flushMs: number; fileRows: number }): Archived[] {
    return ARCHIVED.filter((kind) => {
      const { oldestMs, waiting, throughMs, lost } = this.streams[kind];
      const settled = this.nowMs - settleMs;
      if (lost !== undefined) {
        return true;
      }
      return oldestMs === undefined
        ? settled - throughMs >= flushMs * (1 - this.spread)
        : settled - oldestMs >= flushMs || (waiting >= fileRows && oldestMs < settled);
    });
  }
}
