import type { Reply } from '../../redis/index.js';

/** One event of the log as it was read. */
export interface LogEntry {
  readonly entryId: string;
  /** By the short names of lua/lib/append_event.lua; empty when the entry was deleted. */
  readonly fields: ReadonlyMap<string, string>;
}

/** What one look at a partition found, as lua/dispatch_page.lua tells it. */
export interface DispatchLook {
  /** Redis' time. */
  readonly nowMs: number;
  readonly lease: 'renewed' | 'taken' | 'none';
  readonly lag: number;
  /** When the oldest event was written that is not acknowledged; undefined when all are. */
  readonly oldestMs: number | undefined;
  readonly lanes: number;
  readonly retrying: number;
  readonly leftOver: number;
  /** The last event that was read for the group. */
  readonly lastRead: string;
  /** Whether there may be more events behind these. */
  readonly more: boolean;
  readonly entries: readonly LogEntry[];
}

/** A delivery and its event, as lua/read_deliveries.lua tells of them. */
export interface StoredDelivery {
  readonly ref: string;
  /** Empty when there is no such record any more. */
  readonly status: string;
  readonly attempts: number;
  readonly createdMs: number;
  readonly nextRetryMs: number | undefined;
  readonly fields: ReadonlyMap<string, string>;
}

const LOOK_FIELDS = 10;

/** @returns undefined when the reply says that the lease is not ours. */
export function dispatchLookOf(reply: Reply): DispatchLook | undefined {
  const [word, nowMs, lease, lag, oldestMs, lanes, retrying, leftOver, lastRead = '', more] = reply;
  if (word !== 'HELD') {
    return undefined;
  }
  const entries: LogEntry[] = [];
  for (let index = LOOK_FIELDS; index < reply.length;) {
    const entryId = reply[index] as string;
    const [fields, next] = readFields(reply, index + 1);
    entries.push({ entryId, fields });
    index = next;
  }
  return {
    nowMs: Number(nowMs),
    lease: lease as DispatchLook['lease'],
    lag: Number(lag),
    oldestMs: numberOf(oldestMs),
    lanes: Number(lanes),
    retrying: Number(retrying),
    leftOver: Number(leftOver),
    lastRead,
    more: more === '1',
    entries,
  };
}

export function storedDeliveriesOf(reply: Reply): {
  readonly nowMs: number;
  readonly deliveries: StoredDelivery[];
} {
  const deliveries: StoredDelivery[] = [];
  for (let index = 2; index < reply.length;) {
    const [ref = '', status = '', attempts, createdMs, nextRetryMs] = reply.slice(index, index + 5);
    const [fields, next] = readFields(reply, index + 5);
    deliveries.push({
      ref,
      status,
      attempts: Number(attempts),
      createdMs: Number(createdMs),
      nextRetryMs: numberOf(nextRetryMs),
      fields,
    });
    index = next;
  }
  return { nowMs: Number(reply[1]), deliveries };
}

/** A count at `index` and so many pairs behind it; and where the next thing starts. */
function readFields(reply: Reply, index: number): [fields: ReadonlyMap<string, string>, next: number] {
  const fields = new Map<string, string>();
  const end = index + 1 + 2 * Number(reply[index]);
  for (let at = index + 1; at < end; at += 2) {
    fields.set(reply[at] as string, reply[at + 1] as string);
  }
  return [fields, end];
}

function numberOf(text: string | undefined): number | undefined {
  return text === undefined || text === '' ? undefined : Number(text);
}
