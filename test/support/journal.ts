import type { Redis } from 'ioredis';
import { journalKey } from '../../src/redis/keyspace.js';

export type JournalEntry = Readonly<Record<string, string>>;

/** An entry from its id and its fields as Redis returns them; see lua/lib/journal.lua. */
export function journalEntry(tag: string, [, flat]: readonly [string, readonly string[]]): JournalEntry {
  const fields: Record<string, string> = {};
  for (let index = 0; index < flat.length; index += 2) {
    fields[flat[index] as string] = flat[index + 1] as string;
  }
  const { id, ...others } = fields;
  return id === undefined ? fields : { id: id.length === 16 ? `rsv_${tag.slice(2, 4)}${id}` : id, ...others };
}

/** What the journal of a partition holds, oldest first, with whole reservation ids, but for the requests, which `requestsIn` returns. */
export async function journalOf({
  redis,
  tag,
}: {
  readonly redis: Pick<Redis, 'xrange'>;
  readonly tag: string;
}): Promise<JournalEntry[]> {
  const entries = await redis.xrange(journalKey(tag), '-', '+');
  return entries.map((entry) => {
    const { rq: _, tr: _trace, ...told } = journalEntry(tag, entry);
    return told;
  });
}

/** The id and trace id of the request that made each entry, if one did. */
export async function requestsIn({
  redis,
  tag,
}: {
  readonly redis: Pick<Redis, 'xrange'>;
  readonly tag: string;
}): Promise<(readonly [request: string | undefined, trace: string | undefined])[]> {
  const entries = await redis.xrange(journalKey(tag), '-', '+');
  return entries.map((entry) => {
    const { rq, tr } = journalEntry(tag, entry);
    return [rq, tr] as const;
  });
}

/** Appends the end of a reservation that was charged nothing, as a script does. */
export async function appendEnd(redis: Pick<Redis, 'xadd'>, tag: string, ...ids: string[]): Promise<void> {
  for (const id of ids) {
    const prefix = `rsv_${tag.slice(2, 4)}`;
    await redis.xadd(journalKey(tag), '*', 'id', id.startsWith(prefix) ? id.slice(6) : id, 'ch', '0');
  }
}
