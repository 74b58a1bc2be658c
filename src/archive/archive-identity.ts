import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ARCHIVED, type Archived, compareEntries, type EntryId } from './entry-chain.js';

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

/** @returns undefined if there is no archive.json @throws SyntaxError if it is damaged */
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
  const { id, epochs = [], restoring = false } = (JSON.parse(text) ?? {}) as Partial<ArchiveIdentity>;
  if (typeof id !== 'string' || !Array.isArray(epochs) || !epochs.every(isEpoch)) {
    throw new SyntaxError(`${pathOf(root)} has not the form of an archive.json`);
  }
  return { id, epochs, ...(restoring && { restoring }) };
}

const isEpoch = (value: unknown): boolean => {
  const {
    deployment_id: deployment,
    began_ms: beganMs,
    restored_to: restored,
  } = (value ?? {}) as Partial<Epoch>;
  return (
    typeof deployment === 'string' &&
    Number.isSafeInteger(beganMs) &&
    (restored === undefined ||
      ARCHIVED.every((kind) => Object.values(restored[kind] ?? [null]).every(isEntry)))
  );
};

const isEntry = (value: unknown): boolean => typeof value === 'string' && /^\d{1,14}-\d{1,20}$/.test(value);

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
