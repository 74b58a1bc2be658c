/** What is archived: the journals, the event logs and the audit log of the partitions. */
export const ARCHIVED = ['charges', 'events', 'audit'] as const;
export type Archived = (typeof ARCHIVED)[number];

/** The id of a stream's entry, `ms-sequence`. */
export type EntryId = string;

/** Before every entry. */
export const FIRST: EntryId = '0-0';

export function compareEntries(one: EntryId, other: EntryId): number {
  const [oneMs = '', oneSequence = ''] = one.split('-');
  const [otherMs = '', otherSequence = ''] = other.split('-');
  const difference = BigInt(oneMs) - BigInt(otherMs) || BigInt(oneSequence) - BigInt(otherSequence);
  return Number(difference > 0n) - Number(difference < 0n);
}

export function msOf(entry: EntryId): number {
  return Number.parseInt(entry, 10);
}

/** A file with every entry of its partition after `from`, up to `to`, and no other. */
export interface Link {
  readonly from: EntryId;
  readonly to: EntryId;
}

export interface Hole {
  readonly after: EntryId;
  readonly upTo: EntryId;
}

export interface Chain<L extends Link> {
  readonly links: L[];
  readonly holes: Hole[];
}

/**
 * The files that hold each entry after `start` once, up to `end`, with what no file covers. A folder may have further ones: an archiver that
 * is killed, or whose lease has passed on, leaves a file that begins where another one does. Merging leaves files inside a larger one. No two
 * of one chain overlap, and the fewest that reach furthest are taken.
 * @param end where the cursor is. Files after it are not counted yet. Undefined: as far as the files reach.
 */
export function chainOf<L extends Link>(links: readonly L[], start: EntryId, end?: EntryId): Chain<L> {
  const sorted = links
    .filter(({ from, to }) => compareEntries(from, start) >= 0 && compareEntries(to, from) > 0)
    .filter(({ to }) => end === undefined || compareEntries(to, end) <= 0)
    .sort((one, other) => compareEntries(one.from, other.from) || compareEntries(other.to, one.to));
  const chain: Chain<L> = { links: [], holes: [] };
  let place = start;
  for (;;) {
    const reached = furthest(sorted, place, end);
    chain.links.push(...reached);
    place = reached.at(-1)?.to ?? place;
    const next = sorted.find(({ from }) => compareEntries(from, place) > 0)?.from ?? end;
    if (next === undefined || compareEntries(next, place) <= 0) {
      return chain;
    }
    chain.holes.push({ after: place, upTo: next });
    place = next;
  }
}

/** The shortest chain without a hole that begins at `start` and ends at `end`, or else as far as possible. */
function furthest<L extends Link>(sorted: readonly L[], start: EntryId, end: EntryId | undefined): L[] {
  const links = new Map<EntryId, L[]>();
  for (const link of sorted) {
    links.set(link.from, [...(links.get(link.from) ?? []), link]);
  }
  const reachedBy = new Map<EntryId, L>();
  let last = start;
  // In the order of the number of files, so the first way to a place is the shortest.
  for (let places = [start]; places.length > 0;) {
    const next: EntryId[] = [];
    for (const link of places.flatMap((place) => links.get(place) ?? [])) {
      if (!reachedBy.has(link.to)) {
        reachedBy.set(link.to, link);
        next.push(link.to);
        last = compareEntries(link.to, last) > 0 ? link.to : last;
      }
    }
    places = next;
  }
  const way: L[] = [];
  for (
    let link = reachedBy.get(end ?? last) ?? reachedBy.get(last);
    link !== undefined;
    link = reachedBy.get(link.from)
  ) {
    way.unshift(link);
  }
  return way;
}
