import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { StoreBootError } from '../errors.js';

const FILE_NAME = 'holdfast.lock';

interface Holder {
  readonly pid: number;
  /** Distinguishes a process from a later one with the same pid, which is common in containers. '' if unknown. */
  readonly started: string;
}

/** The lock files of this process. Its own pid in a lock file may be that of an earlier process. */
const heldHere = new Set<string>();

/** The boot id, and when the process started in clock ticks since boot. Empty without /proc. */
function startTimeOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const ticks = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}/${ticks}`;
  } catch {
    return '';
  }
}

function isAlive(holder: Holder): boolean {
  try {
    process.kill(holder.pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
  const started = startTimeOf(holder.pid);
  return started === '' || holder.started === '' || started === holder.started;
}

function readHolder(text: string): Holder | undefined {
  const [pid, started] = text.trim().split(' ');
  return pid !== undefined && /^\d+$/.test(pid) ? { pid: Number(pid), started: started ?? '' } : undefined;
}

/**
 * Allows one Holdfast per DATA_DIR. The lock is a file with the holder's pid. After a SIGKILL the file remains, and the next process
 * takes it over, because its holder no longer exists. Processes in other containers are invisible here; `stopOrphan` detects them by
 * their connections to the embedded Redis.
 */
export class DataDirLock {
  private isReleased = false;

  private constructor(
    private readonly file: string,
    private readonly text: string,
  ) {}

  /** @throws StoreBootError if the directory is not writable, or another Holdfast uses it. */
  static acquire(dataDir: string): DataDirLock {
    const file = join(dataDir, FILE_NAME);
    const text = `${process.pid} ${startTimeOf(process.pid)}\n`;
    const draft = join(dataDir, `.${FILE_NAME}.${process.pid}.${randomBytes(4).toString('hex')}`);
    try {
      mkdirSync(dataDir, { recursive: true, mode: 0o700 });
      writeFileSync(draft, text, { flag: 'wx', mode: 0o600 });
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      throw new StoreBootError(
        `DATA_DIR ${dataDir} is not writable (${code}); give a writable directory, or set REDIS_URL`,
      );
    }
    try {
      claim(draft, file, dataDir);
    } finally {
      rmSync(draft, { force: true });
    }
    heldHere.add(file);
    return new DataDirLock(file, text);
  }

  /** Once: by the second time, this process may hold the next lock of the same name and text. */
  release(): void {
    if (this.isReleased) {
      return;
    }
    this.isReleased = true;
    heldHere.delete(this.file);
    if (readIfThere(this.file) === this.text) {
      rmSync(this.file, { force: true });
    }
  }
}

function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

/** Links the draft to the name of the lock, which fails if the file exists. A lock whose holder is gone is removed first. */
function claim(draft: string, file: string, dataDir: string): void {
  for (let attempt = 0; attempt < 3; attempt += 1) {
    try {
      linkSync(draft, file);
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') {
        throw error;
      }
    }
    const text = readIfThere(file);
    const holder = text === undefined ? undefined : readHolder(text);
    if (holder !== undefined && (heldHere.has(file) || (holder.pid !== process.pid && isAlive(holder)))) {
      throw new StoreBootError(
        `DATA_DIR ${dataDir} is in use by another Holdfast (pid ${holder.pid}); stop it or give another DATA_DIR`,
      );
    }
    removeStale(file, text);
  }
  throw new StoreBootError(`DATA_DIR ${dataDir} is being locked by another Holdfast; try again`);
}

/** Between reading a stale lock and moving it, another process may have replaced it. Its lock is then restored. */
function removeStale(file: string, staleText: string | undefined): void {
  const aside = `${file}.${process.pid}.stale`;
  try {
    renameSync(file, aside);
  } catch {
    return;
  }
  if (readIfThere(aside) !== staleText) {
    try {
      linkSync(aside, file);
    } catch {
      // A third process has created the lock. The other one will notice when it checks its Redis.
    }
  }
  rmSync(aside, { force: true });
}
