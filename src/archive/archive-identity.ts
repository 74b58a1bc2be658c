import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  isCount,
  isListOf,
  isMapOf,
  isObject,
  isOptional,
  isText,
  isTextLike,
  readStored,
} from '../wire/index.js';
import { type Archived, compareEntries, type EntryId } from './entry-chain.js';

/** A time in which one deployment wrote the archive, until its Redis was put back. */
export interface Epoch {
  readonly deployment_id: string;
  readonly began_ms: number;
  /** The last entries that Redis still had when it was put back. Rows of earlier epochs after them are superseded. Not of the first epoch. */
  readonly restored_to?: RestoredTo;
}

/** By stream, and by the two hex digits of each partition. */
export type RestoredTo = Readonly<Record<Archived, Readonly<Record<string, EntryId>>>>;

/** The content of `archive.json`: whose archive it is, and since when. */
export interface ArchiveIdentity {
  readonly id: string;
  /** In their order; the last one is now. None: 0.7 has written it. */
  readonly epochs: readonly Epoch[];
  /** `npm run restore` has set it: the deployment whose Redis is a copy of an owner's takes the archive over. */
  readonly restoring?: boolean;
}

const pathOf = (root: string): string => join(root, 'archive.json');

/** @returns undefined if there is no archive.json @throws MalformedJson if it is damaged */
export async function readIdentity(root: string): Promise<ArchiveIdentity | undefined> {
  let text: string;
  try {
    text = await readFile(pathOf(root), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
      return undefined;
    }
    throw error;
  }
  const { id, epochs = [], restoring = false } = readStored(text, isIdentity, pathOf(root));
  return { id, epochs, ...(restoring && { restoring }) };
}

export const isEntry = isTextLike(/^\d{1,14}-\d{1,20}$/);

const isEpoch = isObject<Epoch>({
  deployment_id: isText,
  began_ms: isCount,
  restored_to: isOptional(
    isObject<RestoredTo>({ charges: isMapOf(isEntry), events: isMapOf(isEntry), audit: isMapOf(isEntry) }),
  ),
});
const isIdentity = isObject<Partial<Omit<ArchiveIdentity, 'id'>> & Pick<ArchiveIdentity, 'id'>>({
  id: isText,
  epochs: isOptional(isListOf(isEpoch)),
  restoring: isOptional((value): value is boolean => typeof value === 'boolean'),
});

/** The last entry of a partition whose row of an epoch counts; undefined if all do, because Redis was not put back since. */
export function boundOf(
  epochs: readonly Epoch[],
  epoch: number,
  kind: Archived,
  code: string,
): EntryId | undefined {
  return epochs
    .slice(epoch)
    .flatMap(({ restored_to: restored }) => restored?.[kind][code] ?? [])
    .sort(compareEntries)[0];
}

export const identityText = (identity: ArchiveIdentity): string =>
  `${JSON.stringify(identity, undefined, 2)}\n`;

/** Of any number that do so at once, one succeeds. @throws EEXIST to the others */
export async function createIdentity(root: string, identity: ArchiveIdentity): Promise<void> {
  const file = await open(pathOf(root), 'wx');
  try {
    await file.writeFile(identityText(identity));
    await file.sync();
  } finally {
    await file.close();
  }
  const folder = await open(root, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
