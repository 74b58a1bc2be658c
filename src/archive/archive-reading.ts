import { join } from 'node:path';
import { DAY_MS } from '../ledger/index.js';
import { MAX_PARTITIONS, partitionCode } from '../redis/index.js';
import {
  type ArchiveFolder,
  type ArchiveGap,
  type ArchivePlaces,
  daysFromTo,
  type StagedFile,
} from './archive-folder.js';
import { boundOf, type Epoch } from './archive-identity.js';
import { earlierEpochs, placeOf } from './archive-staging.js';
import { faultOf } from './file-faults.js';
import { type Archived, type Chain, type EntryId, msOf } from './entry-chain.js';

export interface ArchiveReading {
  /** The id of the deployment whose archive it is, if that is known. */
  readonly owner: string | undefined;
  /** Absolute paths of Parquet files that have each row once. They also have rows outside the span. */
  readonly files: readonly string[];
  /** Every row from this instant on is in these files, but for the gaps, in ms: the archive began later than what was before, or it was removed. */
  readonly completeFromMs: number;
  /** Every row up to this instant is in these files, but for the gaps, in ms. 0 if nothing is archived. */
  readonly completeThroughMs: number;
  readonly gaps: readonly ArchiveGap[];
  /** Rows of these partitions and epochs after these entries are superseded: Redis was put back to there since. */
  readonly superseded: readonly Superseded[];
  /** When each epoch began, in ms. */
  readonly epochsMs: readonly number[];
}

export interface Superseded {
  readonly partition: number;
  readonly epoch: number;
  readonly after: EntryId;
}

/** Of a Date. */
const LAST_MS = 8.64e15;

/**
 * What to read for the rows of a span. Of manifests, it reads those of the span's days and the last one, which says where staging begins.
 * @param span from an instant, inclusive, to another, exclusive, in ms
 */
export async function readArchive(
  folder: ArchiveFolder,
  kind: Archived,
  [fromMs, toMs]: readonly [number, number],
  places: ArchivePlaces,
): Promise<ArchiveReading> {
  const found = { files: [] as string[], gaps: [] as ArchiveGap[] };
  const days = await folder.days();
  const identity = await folder.identityOrFault();
  if (typeof identity === 'string' && (days.length > 0 || places.size > 0)) {
    found.gaps.push({ fromMs, toMs: Math.min(toMs, LAST_MS), file: 'archive.json', why: identity });
  }
  for (const day of daysFromTo(days)) {
    if (Date.parse(day) < toMs && Date.parse(day) + DAY_MS > fromMs) {
      await addDay(folder, kind, day, found);
    }
  }
  const epochs = typeof identity === 'string' ? [] : identity.epochs;
  const published = { epochs, manifest: await folder.lastManifest() };
  for (const [partition, { cursor, first }] of places) {
    const staging = { kind, partition, first, cursor };
    await addStaged(folder, partition, await earlierEpochs(folder, staging, published), found);
    await addStaged(folder, partition, await folder.chain(placeOf(staging, published)), found);
  }
  const through = [...places.values()].map(({ throughMs }) => throughMs);
  return {
    owner: epochs.at(-1)?.deployment_id,
    files: found.files,
    completeFromMs: Math.max(
      ...[...places.values()].map(({ beganMs }) => beganMs),
      epochs[0]?.began_ms ?? 0,
      days[0] === undefined ? 0 : Date.parse(days[0]),
    ),
    completeThroughMs: through.length === 0 ? 0 : Math.min(...through),
    gaps: found.gaps.filter((gap) => gap.fromMs < toMs && gap.toMs >= fromMs),
    superseded: supersededOf(epochs, kind),
    epochsMs: epochs.map(({ began_ms: beganMs }) => beganMs),
  };
}

async function addDay(
  folder: ArchiveFolder,
  kind: Archived,
  day: string,
  into: { files: string[]; gaps: ArchiveGap[] },
): Promise<void> {
  const addGap = (path: string, why: ArchiveGap['why']): void => {
    const fromMs = Date.parse(day);
    into.gaps.push({ fromMs, toMs: fromMs + DAY_MS, file: folder.nameOf(path), why });
  };
  const manifest = await folder.manifestOrFault(day);
  if (typeof manifest === 'string') {
    addGap(folder.manifestPath(day), manifest);
    return;
  }
  const published = manifest.files[kind];
  if (published !== undefined) {
    const file = join(folder.publishedOf(day), `${kind}.parquet`);
    const why = await faultOf({ ...published, path: file });
    if (why === undefined) {
      into.files.push(file);
      into.gaps.push(...published.gaps);
    } else {
      addGap(file, why);
    }
  }
}

async function addStaged(
  folder: ArchiveFolder,
  partition: number,
  { links, holes }: Chain<StagedFile>,
  into: { files: string[]; gaps: ArchiveGap[] },
): Promise<void> {
  for (const { path, from, to, ...written } of links) {
    const why = await faultOf({ ...written, path });
    if (why === undefined) {
      into.files.push(path);
    } else {
      into.gaps.push({ partition, fromMs: msOf(from), toMs: msOf(to), file: folder.nameOf(path), why });
    }
  }
  for (const { after, upTo } of holes) {
    into.gaps.push({ partition, fromMs: msOf(after), toMs: msOf(upTo), why: 'MISSING' });
  }
}

/** Up to where rows of earlier epochs count, in the partitions of an epoch. */
export function supersededOf(epochs: readonly Epoch[], kind: Archived): Superseded[] {
  return epochs.slice(1).flatMap((_, index) =>
    Array.from({ length: MAX_PARTITIONS }, (_one, partition) => partition).flatMap((partition) => {
      const after = boundOf(epochs, index + 1, kind, partitionCode(partition));
      return after === undefined ? [] : [{ partition, epoch: index + 1, after }];
    }),
  );
}
