import { open, stat } from 'node:fs/promises';
import { DAY_MS } from '../ledger/index.js';
import { DamagedFile, ParquetThread } from './parquet-thread.js';

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
  /** What was expected; null if a parser has condemned it. */
  readonly sha256: string | null | undefined;
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
  const isSame = known?.identity === now.identity && (known.sha256 === null || known.sha256 === sha256);
  if (isSame && performance.now() - known.atMs < VALID_MS) {
    return known.fault;
  }
  try {
    const fault = await read(path, now.size, sha256);
    judge(path, { identity: now.identity, sha256, fault });
    return fault;
  } catch (error) {
    if (isMissing(error)) {
      return 'MISSING';
    }
    // A disk may read it the next time.
    if (error instanceof DamagedFile || (error as NodeJS.ErrnoException).code === 'EIO') {
      return 'DAMAGED';
    }
    throw error;
  }
}

/** The same, but what was found to be damaged is read again: for what cannot be taken back. */
export async function faultOfNow(file: Expected): Promise<FileFault | undefined> {
  const fault = await faultOf(file);
  if (fault !== 'DAMAGED' || file.sha256 === undefined) {
    return fault;
  }
  doubt([file.path]);
  return faultOf(file);
}

/** What a parser found that the content does not show. */
export async function condemn(path: string): Promise<void> {
  const now = await sizeAndIdentity(path);
  if (now !== undefined) {
    judge(path, { identity: now.identity, sha256: null, fault: 'DAMAGED' });
  }
}

/** The next look reads them again. */
export function doubt(paths: readonly string[]): void {
  paths.forEach((path) => verdicts.delete(path));
}

function judge(path: string, verdict: Omit<Verdict, 'atMs'>): void {
  verdicts.delete(path);
  verdicts.set(path, { ...verdict, atMs: performance.now() });
  const [oldest] = verdicts.keys();
  if (verdicts.size > MOST && oldest !== undefined) {
    verdicts.delete(oldest);
  }
}

async function read(path: string, size: number, sha256: string | undefined): Promise<FileFault | undefined> {
  if (!(await isFinished(path, size))) {
    return 'CUT';
  }
  const isAsWritten = sha256 === undefined || (await hashing.run({ kind: 'hash', path })).startsWith(sha256);
  return isAsWritten ? undefined : 'DAMAGED';
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
    const { size, mtimeMs, ctimeMs, ino } = await stat(path);
    return { size, identity: `${ino} ${size} ${mtimeMs} ${ctimeMs}` };
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
