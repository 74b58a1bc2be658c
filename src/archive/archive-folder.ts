import { open, readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { partitionCode } from '../redis/index.js';
import { type ArchiveIdentity, readIdentity } from './archive-identity.js';
import { type Chain, chainOf, compareEntries, type EntryId, msOf } from './entry-chain.js';

/** What is archived: the journals, the event logs and the audit log of the partitions. */
export const ARCHIVED = ['charges', 'events', 'audit'] as const;
export type Archived = (typeof ARCHIVED)[number];

/** How far a partition is archived, as Redis has it. */
export interface ArchivePlace {
  /** The last entry that is archived. */
  readonly cursor: EntryId;
  /** Every entry up to this instant is archived, and none will be added, in ms. */
  readonly throughMs: number;
  /** The entry after which the archive began. */
  readonly first: EntryId;
  /** When it did, in ms. */
  readonly beganMs: number;
}
/** By partition; one that is not in the map has nothing archived. `readPlaces` reads them. */
export type ArchivePlaces = ReadonlyMap<number, ArchivePlace>;

/** Entries that should be in the archive and are not. */
export interface ArchiveGap {
  /** Undefined: all of them. */
  readonly partition?: number;
  readonly fromMs: number;
  readonly toMs: number;
  /** The file that is missing or damaged, if it is known, below the folder. */
  readonly file?: string;
  readonly why: 'MISSING' | 'CUT';
}

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
}

export interface StagedFile {
  readonly path: string;
  readonly from: EntryId;
  readonly to: EntryId;
}

/** Sums of the rows of a published file in one unit, CORRECTION left out, as decimal text. */
export interface UnitSums {
  readonly unit: string;
  readonly reserved: string;
  readonly charged: string;
  readonly debt: string;
}

export interface PublishedFile {
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
  /** Only of charges. */
  readonly sums?: readonly UnitSums[];
  /** Where each partition's day ends, by its two hex digits. */
  readonly ends: Readonly<Record<string, EntryId>>;
  readonly gaps: readonly ArchiveGap[];
}

/** The content of `published/day=YYYY-MM-DD/manifest.json`. */
export interface Manifest {
  readonly archive_id: string;
  readonly day: string;
  readonly files: Readonly<Partial<Record<Archived, PublishedFile>>>;
}

export interface ChainPlace {
  readonly kind: Archived;
  readonly partition: number;
  /** Where what is published ends. */
  readonly start: EntryId;
  /** Undefined: as far as the files reach. */
  readonly cursor: EntryId | undefined;
}

export const DAY_MS = 86_400_000;
/** Of a Date. */
const LAST_MS = 8.64e15;

/** The UTC day of an instant, as YYYY-MM-DD. */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** Each day from the first to the last of some in order. Days are published one after the other, and removed from the oldest on. */
export function daysFromTo(days: readonly string[]): string[] {
  const [first, last] = [days[0], days.at(-1)];
  if (first === undefined || last === undefined) {
    return [];
  }
  const count = (Date.parse(last) - Date.parse(first)) / DAY_MS + 1;
  return Array.from({ length: count }, (_, index) => dayOf(Date.parse(first) + index * DAY_MS));
}

const isWithin = (day: string, fromMs: number, toMs: number): boolean =>
  Date.parse(day) < toMs && Date.parse(day) + DAY_MS > fromMs;

const STAGED = /^(\d{1,14}-\d{1,20})_(\d{1,14}-\d{1,20})\.parquet$/;
const PUBLISHED_DAY = /^day=(\d{4}-\d{2}-\d{2})$/;
const MAGIC = 'PAR1';

/**
 * The folder of `ARCHIVE_DIR`, as its readers see it. `archiver.service.ts` describes how it is written.
 *
 *     archive.json                                   whose archive it is, and since when
 *     staging/pNN/<from>_<to>.parquet                charges of a partition after one entry, up to another; of one UTC day
 *     staging-events/pNN/, staging-audit/pNN/        likewise
 *     published/day=YYYY-MM-DD/manifest.json         rows, sums and hashes of the day's files, which never change again
 *     published/day=YYYY-MM-DD/charges.parquet, events.parquet, audit.parquet
 *
 * A file whose name begins with a dot is being written, or was left behind.
 */
export class ArchiveFolder {
  constructor(readonly root: string) {}

  stagingOf(kind: Archived, partition: number): string {
    return join(
      this.root,
      kind === 'charges' ? 'staging' : `staging-${kind}`,
      `p${partitionCode(partition)}`,
    );
  }

  stagedPath(kind: Archived, partition: number, from: EntryId, to: EntryId): string {
    return join(this.stagingOf(kind, partition), `${from}_${to}.parquet`);
  }

  publishedOf(day: string): string {
    return join(this.root, 'published', `day=${day}`);
  }

  /** The complete files of a partition that are not published yet, and leftovers; see `chainOf`. */
  async staged(kind: Archived, partition: number): Promise<StagedFile[]> {
    const folder = this.stagingOf(kind, partition);
    return (await namesIn(folder)).flatMap((name) => {
      const [, from, to] = STAGED.exec(name) ?? [];
      return from === undefined || to === undefined ? [] : [{ path: join(folder, name), from, to }];
    });
  }

  /** The published days, oldest first. */
  async days(): Promise<string[]> {
    const names = await namesIn(join(this.root, 'published'));
    return names.flatMap((name) => PUBLISHED_DAY.exec(name)?.[1] ?? []).sort();
  }

  /** Undefined if the day is not published. @throws if the manifest cannot be read */
  async manifest(day: string): Promise<Manifest | undefined> {
    try {
      return JSON.parse(await readFile(this.manifestPath(day), 'utf8')) as Manifest;
    } catch (error) {
      if (isMissing(error)) {
        return undefined;
      }
      throw error;
    }
  }

  private manifestPath(day: string): string {
    return join(this.publishedOf(day), 'manifest.json');
  }

  private async manifestOrFault(day: string): Promise<Manifest | ArchiveGap['why']> {
    try {
      return (await this.manifest(day)) ?? 'MISSING';
    } catch (error) {
      if (error instanceof SyntaxError) {
        return 'CUT';
      }
      throw error;
    }
  }

  /** @returns why it cannot be told whose archive it is, if it cannot */
  private async identityOrFault(): Promise<ArchiveIdentity | ArchiveGap['why']> {
    try {
      return (await readIdentity(this.root)) ?? 'MISSING';
    } catch (error) {
      if (error instanceof SyntaxError) {
        return 'CUT';
      }
      throw error;
    }
  }

  /**
   * What to read for the rows of a span. Of manifests, it reads those of the span's days and the last one, which says where staging begins.
   * @param fromMs inclusive
   * @param toMs exclusive
   */
  async read(kind: Archived, fromMs: number, toMs: number, places: ArchivePlaces): Promise<ArchiveReading> {
    const files: string[] = [];
    const gaps: ArchiveGap[] = [];
    const published = await this.days();
    const identity = await this.identityOrFault();
    if (typeof identity === 'string' && (published.length > 0 || places.size > 0)) {
      gaps.push({ fromMs, toMs: Math.min(toMs, LAST_MS), file: 'archive.json', why: identity });
    }
    for (const day of daysFromTo(published).filter((one) => isWithin(one, fromMs, toMs))) {
      gaps.push(...(await this.readDay(kind, day, files)));
    }
    const ends = await this.publishedEnds(kind, published);
    for (const [partition, { cursor, first }] of places) {
      const start = ends[partitionCode(partition)] ?? first;
      await this.readStaged({ kind, partition, start, cursor }, { files, gaps });
    }
    const through = [...places.values()].map(({ throughMs }) => throughMs);
    const began = [...places.values()].map(({ beganMs }) => beganMs);
    return {
      owner: typeof identity === 'string' ? undefined : identity.epochs.at(-1)?.deployment_id,
      files,
      completeFromMs: Math.max(
        ...began,
        typeof identity === 'string' ? 0 : (identity.epochs[0]?.began_ms ?? 0),
        published[0] === undefined ? 0 : Date.parse(published[0]),
      ),
      completeThroughMs: through.length === 0 ? 0 : Math.min(...through),
      gaps: gaps.filter((gap) => gap.fromMs < toMs && gap.toMs >= fromMs),
    };
  }

  /** @returns its gaps */
  private async readDay(kind: Archived, day: string, files: string[]): Promise<readonly ArchiveGap[]> {
    const gapOf = (path: string, why: ArchiveGap['why']): ArchiveGap[] => [
      { fromMs: Date.parse(day), toMs: Date.parse(day) + DAY_MS, file: this.nameOf(path), why },
    ];
    const manifest = await this.manifestOrFault(day);
    if (typeof manifest === 'string') {
      return gapOf(this.manifestPath(day), manifest);
    }
    const published = manifest.files[kind];
    if (published === undefined) {
      return [];
    }
    const file = join(this.publishedOf(day), `${kind}.parquet`);
    const why = await faultOf(file, published.bytes);
    if (why === undefined) {
      files.push(file);
    }
    return why === undefined ? published.gaps : gapOf(file, why);
  }

  /** Where the last published day ends whose manifest can be read, by partition. */
  private async publishedEnds(kind: Archived, days: readonly string[]): Promise<PublishedFile['ends']> {
    for (const day of days.toReversed()) {
      const manifest = await this.manifestOrFault(day);
      if (typeof manifest !== 'string') {
        return manifest.files[kind]?.ends ?? {};
      }
    }
    return {};
  }

  /**
   * The staged files that follow what is published. A failover that loses the end of the cursor makes a file begin before that: its rows are
   * later nevertheless if they are of a later day.
   */
  async chain({ kind, partition, start, cursor }: ChainPlace): Promise<Chain<StagedFile>> {
    const files = (await this.staged(kind, partition)).map((file) => {
      const beginsEarlier = compareEntries(file.from, start) < 0 && dayOf(msOf(file.to)) > dayOf(msOf(start));
      return beginsEarlier ? { ...file, from: start } : file;
    });
    return chainOf(files, start, cursor);
  }

  private async readStaged(
    { kind, partition, start, cursor }: ChainPlace,
    into: { files: string[]; gaps: ArchiveGap[] },
  ): Promise<void> {
    const { links, holes } = await this.chain({ kind, partition, start, cursor });
    for (const { path, from, to } of links) {
      const why = await faultOf(path);
      if (why === undefined) {
        into.files.push(path);
      } else {
        into.gaps.push({ partition, fromMs: msOf(from), toMs: msOf(to), file: this.nameOf(path), why });
      }
    }
    for (const { after, upTo } of holes) {
      into.gaps.push({ partition, fromMs: msOf(after), toMs: msOf(upTo), why: 'MISSING' });
    }
  }

  /** A path as it is named to operators. */
  nameOf(path: string): string {
    return path.slice(this.root.length + 1);
  }
}

/** What is wrong with a file at the first look: its length, or the mark at its end. `npm run archive -- verify` also reads it. */
export async function faultOf(path: string, bytes?: number): Promise<'MISSING' | 'CUT' | undefined> {
  try {
    if (bytes !== undefined) {
      return (await stat(path)).size === bytes ? undefined : 'CUT';
    }
    const file = await open(path, 'r');
    try {
      const { size } = await file.stat();
      const mark = Buffer.alloc(MAGIC.length);
      await file.read(mark, 0, mark.length, Math.max(0, size - mark.length));
      return mark.toString('latin1') === MAGIC ? undefined : 'CUT';
    } finally {
      await file.close();
    }
  } catch (error) {
    if (isMissing(error)) {
      return 'MISSING';
    }
    throw error;
  }
}

/** What is being written into a folder of the archive, or was left behind there. Empty if there is no such folder. */
export async function unfinishedIn(folder: string): Promise<string[]> {
  const names = await namesIn(folder);
  return names.filter((name) => name.startsWith('.')).map((name) => join(folder, name));
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (isMissing(error)) {
      return [];
    }
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT';
}
