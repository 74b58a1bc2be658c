import { open, stat } from 'node:fs/promises';
import { DAY_MS } from '../ledger/index.js';
import { ParquetThread } from './parquet-thread.js';

/** What is wrong with a file: it is not there, not complete, or not what was written. */
export type FileFault = 'MISSING' | 'CUT' | 'DAMAGED';

/** What is known of a file. */
export interface Expected {
  readonly path: string;
  readonly bytes?: number;
  /** Or its beginning. Undefined: 0.7 staged it. Only the mark at its end is looked at then, until a reader fails. */
  readonly sha256?: string;
}

interface Verdict {
  /** Of the file that was judged. A file is replaced, never changed, unless something damages it. */
  readonly identity: string;
  readonly atMs: number;
  readonly fault: FileFault | undefined;
}

/** Disks lose bits without a change of the file's time. */
const VALID_MS = DAY_MS;
/** Days and staged files of some years. */
const MOST = 100_000;
const MAGIC = 'PAR1';

/** Of all readers in this process. */
const verdicts = new Map<string, Verdict>();
const hashing = new ParquetThread();

/**
 * Judges a file by its content before anybody parses it: damage can make a parser spin, fail or see other amounts. It is read once a day at most.
 * @throws an error of the file system, if it is not one of this file
 */
export async function faultOf({ path, bytes, sha256 }: Expected): Promise<FileFault | undefined> {
  const now = await sizeAndIdentity(path);
  if (now === undefined) {
    return 'MISSING';
  }
  if (bytes !== undefined && now.size !== bytes) {
    return 'CUT';
  }
  const known = verdicts.get(path);
  if (known?.identity === now.identity && performance.now() - known.atMs < VALID_MS) {
    return known.fault;
  }
  const fault = await read(path, now.size, sha256);
  judge(path, now.identity, fault);
  return fault;
}

/** What a parser found that the content does not show. */
export async function condemn(path: string): Promise<void> {
  const now = await sizeAndIdentity(path);
  if (now !== undefined) {
    judge(path, now.identity, 'DAMAGED');
  }
}

/** The next look reads them again. */
export function doubt(paths: readonly string[]): void {
  paths.forEach((path) => verdicts.delete(path));
}

function judge(path: string, identity: string, fault: FileFault | undefined): void {
  verdicts.delete(path);
  verdicts.set(path, { identity, atMs: performance.now(), fault });
  const [oldest] = verdicts.keys();
  if (verdicts.size > MOST && oldest !== undefined) {
    verdicts.delete(oldest);
  }
}

async function read(path: string, size: number, sha256: string | undefined): Promise<FileFault | undefined> {
  try {
    if (!(await isFinished(path, size))) {
      return 'CUT';
    }
    const isAsWritten =
      sha256 === undefined || (await hashing.run({ kind: 'hash', path })).startsWith(sha256);
    return isAsWritten ? undefined : 'DAMAGED';
  } catch (error) {
    if (isMissing(error)) {
      return 'MISSING';
    }
    if ((error as NodeJS.ErrnoException).code === 'EIO') {
      return 'DAMAGED';
    }
    throw error;
  }
}

/** Whether it ends as a Parquet file does. */
async function isFinished(path: string, size: number): Promise<boolean> {
  const file = await open(path, 'r');
  try {
    const mark = Buffer.alloc(MAGIC.length);
    await file.read(mark, 0, mark.length, Math.max(0, size - mark.length));
    return mark.toString('latin1') === MAGIC;
  } finally {
    await file.close();
  }
}

async function sizeAndIdentity(
  path: string,
): Promise<{ readonly size: number; readonly identity: string } | undefined> {
  try {
    const { size, mtimeMs, ino } = await stat(path);
    return { size, identity: `${ino} ${size} ${mtimeMs}` };
  } catch (error) {
    if (isMissing(error)) {
      return undefined;
    }
    throw error;
  }
}

export function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT';
}
