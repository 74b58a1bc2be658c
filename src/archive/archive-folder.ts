import { hash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DAY_MS } from '../ledger/index.js';
import { partitionCode } from '../redis/index.js';
import {
  isCount,
  isListOf,
  isMapOf,
  isObject,
  isOneOf,
  isOptional,
  isText,
  isTextLike,
  MalformedJson,
  readStored,
} from '../wire/index.js';
import { type ArchiveIdentity, type Epoch, isEntry, readIdentity } from './archive-identity.js';
import { type FileFault, isMissing } from './file-faults.js';
import { type Archived, type Chain, chainOf, compareEntries, type EntryId, msOf } from './entry-chain.js';
import type { UnitSums } from './parquet-tasks.js';

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
  /** Of the archive, as Redis has it; 0 while one begins. */
  readonly epoch: number;
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
  readonly why: FileFault;
}

/** What staging follows: the last published day of which there is a manifest, and the epochs. */
export interface Published {
  readonly epochs: readonly Epoch[];
  readonly manifest: Manifest | undefined;
}

export interface StagedFile {
  readonly path: string;
  readonly epoch: number;
  readonly from: EntryId;
  readonly to: EntryId;
  /** The beginning of its SHA-256. 0.7 did not write it into names. */
  readonly sha256?: string;
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
  /** In which it was published. */
  readonly epoch?: number;
  readonly day: string;
  readonly files: Readonly<Partial<Record<Archived, PublishedFile>>>;
}

export interface ChainPlace {
  readonly kind: Archived;
  readonly partition: number;
  readonly epoch: number;
  /** Where what is published ends. */
  readonly start: EntryId;
  /** Undefined: as far as the files reach. */
  readonly cursor: EntryId | undefined;
}

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

const STAGED = /^(?:e(\d{1,6})_)?(\d{1,14}-\d{1,20})_(\d{1,14}-\d{1,20})(?:_([0-9a-f]{16}))?\.parquet$/;
const PUBLISHED_DAY = /^day=(\d{4}-\d{2}-\d{2})$/;

const isUnitSums = isObject<UnitSums>({ unit: isText, reserved: isText, charged: isText, debt: isText });
const isPublishedFile = isObject<PublishedFile>({
  rows: isCount,
  bytes: isCount,
  sha256: isTextLike(/^[0-9a-f]{64}$/),
  sums: isOptional(isListOf(isUnitSums)),
  ends: isMapOf(isEntry),
  gaps: isListOf(
    isObject<ArchiveGap>({
      partition: isOptional(isCount),
      fromMs: isCount,
      toMs: isCount,
      file: isOptional(isText),
      why: isOneOf('MISSING', 'CUT', 'DAMAGED'),
    }),
  ),
});
const isManifest = isObject<Manifest & { readonly checksum?: string }>({
  archive_id: isText,
  epoch: isOptional(isCount),
  day: isText,
  files: isObject<Manifest['files']>({
    charges: isOptional(isPublishedFile),
    events: isOptional(isPublishedFile),
    audit: isOptional(isPublishedFile),
  }),
  checksum: isOptional(isText),
});

const checksumOf = (manifest: Manifest): string => hash('sha256', JSON.stringify(manifest));

/** The content of the file. A changed digit in it would make rows count twice, or not at all. 0.7 wrote no checksum. */
export const manifestText = (manifest: Manifest): string =>
  `${JSON.stringify({ ...manifest, checksum: checksumOf(manifest) }, undefined, 2)}\n`;

/**
 * The folder of `ARCHIVE_DIR`, as its readers see it. `archiver.service.ts` describes how it is written.
 *
 *     archive.json                                   whose archive it is, and since when
 *     staging/pNN/<from>_<to>_<hash>.parquet         charges of a partition after one entry, up to another; of one UTC day
 *     staging/pNN/e2_<from>_<to>_<hash>.parquet      likewise, of the second epoch, and so on
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

  /** Without the hash, which is not known before it is written. */
  stagedPath(
    { kind, partition, epoch }: Pick<ChainPlace, 'kind' | 'partition' | 'epoch'>,
    from: EntryId,
    to: EntryId,
  ): string {
    const prefix = epoch > 1 ? `e${epoch}_` : '';
    return join(this.stagingOf(kind, partition), `${prefix}${from}_${to}.parquet`);
  }

  publishedOf(day: string): string {
    return join(this.root, 'published', `day=${day}`);
  }

  /** The complete files of a partition that are not published yet, and leftovers; see `chainOf`. @param only of this epoch */
  async staged(kind: Archived, partition: number, only?: number): Promise<StagedFile[]> {
    const folder = this.stagingOf(kind, partition);
    return (await namesIn(folder)).flatMap((name) => {
      const [, number = '1', from, to, sha256] = STAGED.exec(name) ?? [];
      const epoch = Number(number);
      const isOther = from === undefined || to === undefined || epoch !== (only ?? epoch);
      return isOther
        ? []
        : [{ path: join(folder, name), from, to, epoch, ...(sha256 === undefined ? {} : { sha256 }) }];
    });
  }

  /** The published days, oldest first. */
  async days(): Promise<string[]> {
    const names = await namesIn(join(this.root, 'published'));
    return names.flatMap((name) => PUBLISHED_DAY.exec(name)?.[1] ?? []).sort();
  }

  /** Undefined if the day is not published, or its manifest is gone. @throws MalformedJson if the manifest is damaged */
  async manifest(day: string): Promise<Manifest | undefined> {
    const path = this.manifestPath(day);
    let text: string;
    try {
      text = await readFile(path, 'utf8');
    } catch (error) {
      if (isMissing(error)) {
        return undefined;
      }
      throw error;
    }
    const { checksum, ...manifest } = readStored(text, isManifest, this.nameOf(path));
    if (manifest.day !== day || (checksum ?? checksumOf(manifest)) !== checksumOf(manifest)) {
      throw new MalformedJson(`${this.nameOf(path)} is not as it was written`);
    }
    return manifest;
  }

  manifestPath(day: string): string {
    return join(this.publishedOf(day), 'manifest.json');
  }

  manifestOrFault(day: string): Promise<Manifest | FileFault> {
    return orFault(this.manifest(day));
  }

  /** @throws if archive.json is missing or damaged */
  async identity(): Promise<ArchiveIdentity> {
    const identity = await readIdentity(this.root);
    if (identity === undefined) {
      throw new Error(`${join(this.root, 'archive.json')} is missing: restore it`);
    }
    return identity;
  }

  /** @throws if archive.json is missing or damaged */
  async published(): Promise<Published> {
    return { epochs: (await this.identity()).epochs, manifest: await this.lastManifest() };
  }

  /** @returns why it cannot be told whose archive it is, if it cannot */
  identityOrFault(): Promise<ArchiveIdentity | FileFault> {
    return orFault(readIdentity(this.root));
  }

  /** Of the last published day of which it can be read. */
  async lastManifest(): Promise<Manifest | undefined> {
    for (const day of (await this.days()).reverse()) {
      const manifest = await this.manifestOrFault(day);
      if (typeof manifest !== 'string') {
        return manifest;
      }
    }
    return undefined;
  }

  /**
   * The staged files that follow what is published. A failover that loses the end of the cursor makes a file begin before that: its rows are
   * later nevertheless if they are of a later day.
   */
  async chain({ kind, partition, epoch, start, cursor }: ChainPlace): Promise<Chain<StagedFile>> {
    const files = (await this.staged(kind, partition, epoch)).map((file) => {
      const beginsEarlier = compareEntries(file.from, start) < 0 && dayOf(msOf(file.to)) > dayOf(msOf(start));
      return beginsEarlier ? { ...file, from: start } : file;
    });
    return chainOf(files, start, cursor);
  }

  /** A path as it is named to operators. */
  nameOf(path: string): string {
    return path.slice(this.root.length + 1);
  }
}

async function orFault<T>(reading: Promise<T | undefined>): Promise<T | FileFault> {
  try {
    return (await reading) ?? 'MISSING';
  } catch (error) {
    if (error instanceof MalformedJson) {
      return 'DAMAGED';
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
