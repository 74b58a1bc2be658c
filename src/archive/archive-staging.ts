import { partitionCode } from '../redis/index.js';
import {
  type ArchiveFolder,
  type ChainPlace,
  dayOf,
  type Manifest,
  type Published,
  type StagedFile,
} from './archive-folder.js';
import { boundOf } from './archive-identity.js';
import {
  type Archived,
  type Chain,
  chainOf,
  compareEntries,
  type EntryId,
  FIRST,
  type Link,
  msOf,
} from './entry-chain.js';

/** A partition's stream as Redis has it. */
export interface Staging {
  readonly kind: Archived;
  readonly partition: number;
  /** The last entry that is archived; undefined: as far as the files reach. */
  readonly cursor: EntryId | undefined;
  /** Where staging begins if nothing was published yet, and Redis was never put back. */
  readonly first: EntryId;
}

/** In which epoch a day was published. 0.7 knew but one. */
const epochOf = (manifest: Manifest | undefined): number => manifest?.epoch ?? 1;

/** Where staging begins in the present epoch, and how far it is archived. */
export function placeOf(
  { kind, partition, cursor, first }: Staging,
  { epochs, manifest }: Published,
): ChainPlace {
  const code = partitionCode(partition);
  const epoch = Math.max(1, epochs.length);
  const published = epochOf(manifest) === epoch ? manifest?.files[kind]?.ends[code] : undefined;
  const start = published ?? epochs.at(-1)?.restored_to?.[kind][code] ?? first;
  return { kind, partition, epoch, start, cursor };
}

/** What is staged of earlier epochs, and what is missing of the entries that count. */
export async function earlierEpochs(
  folder: ArchiveFolder,
  { kind, partition }: Staging,
  { epochs, manifest }: Published,
): Promise<Chain<StagedFile>> {
  const code = partitionCode(partition);
  const all: Chain<StagedFile> = { links: [], holes: [] };
  for (let epoch = 1; epoch < epochs.length; epoch += 1) {
    const files = (await folder.staged(kind, partition, epoch)).filter(
      ({ to }) => manifest === undefined || dayOf(msOf(to)) > manifest.day,
    );
    const ofLast = epochOf(manifest) === epoch ? manifest?.files[kind]?.ends[code] : undefined;
    const start = ofLast ?? files.map(({ from }) => from).sort(compareEntries)[0];
    if (start !== undefined) {
      const after = files.map((file) =>
        compareEntries(file.from, start) < 0 ? { ...file, from: start } : file,
      );
      const { links, holes } = chainOf(after, start);
      const end = boundOf(epochs, epoch, kind, code) ?? FIRST;
      const reached = links.at(-1)?.to ?? start;
      all.links.push(...links);
      all.holes.push(
        ...[...holes, { after: reached, upTo: end }].filter(
          (hole) => compareEntries(hole.after, end) < 0 && compareEntries(hole.upTo, hole.after) > 0,
        ),
      );
    }
  }
  return all;
}

/** How far the files of a partition go that count: the furthest one, and those that follow an entry without a hole. */
export async function reachOf(
  folder: ArchiveFolder,
  kind: Archived,
  partition: number,
  after: EntryId,
  { epochs, manifest }: Published,
): Promise<{ readonly end: EntryId; readonly whole: EntryId }> {
  const code = partitionCode(partition);
  const published = manifest?.files[kind]?.ends[code];
  const found: (Link & { readonly epoch: number })[] = [
    ...(await folder.staged(kind, partition)),
    ...(published === undefined ? [] : [{ from: FIRST, to: published, epoch: epochOf(manifest) }]),
  ];
  const links = found.map(({ from, to, epoch }): Link => {
    const bound = boundOf(epochs, epoch, kind, code) ?? to;
    return { from, to: compareEntries(bound, to) < 0 ? bound : to };
  });
  let [whole, next] = [FIRST, after];
  while (next !== whole) {
    whole = next;
    next = links.reduce(
      (end, { from, to }) => (compareEntries(from, end) <= 0 && compareEntries(to, end) > 0 ? to : end),
      next,
    );
  }
  return { end: links.reduce((end, { to }) => (compareEntries(to, end) > 0 ? to : end), FIRST), whole };
}
