import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { StoreBootError } from '../errors.js';

const FILE_NAME = 'holdfast.lock';

interface Holder {
  readonly pid: number;
  /** Distinguishes a process from a later one with the same number, which is usual in containers; '' where unknown. */
  readonly started: string;
}

/** The directories that this very process holds: its own pid in a lock file tells nothing. */
const heldHere = new Set<string>();

/** When the process started, in clock ticks since boot, and which boot; empty where there is no /proc. */
function startOf(pid: number): string {
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
  const started = startOf(holder.pid);
  return started === '' || holder.started === '' || started === holder.started;
}

function readHolder(text: string): Holder | undefined {
  const [pid, started] = text.trim().split(' ');
  return pid !== undefined && /^\d+$/.test(pid) ? { pid: Number(pid), started: started ?? '' } : undefined;
}

/**
 * One Holdfast per DATA_DIR. The lock is a file with the holder's pid; it outlives a SIGKILL and is then taken over,
 * because its holder is gone. Processes in other containers are not visible here: for them, the connections that they
 * keep to the embedded Redis are checked before that Redis is stopped.
 */
export class DataDirLock {
  private constructor(
    private readonly file: string,
    private readonly text: string,
  ) {}

  /** @throws StoreBootError of one line when the directory cannot be written, or another Holdfast holds it. */
  static acquire(dataDir: string): DataDirLock {
    const file = join(dataDir, FILE_NAME);
    const text = `${process.pid} ${startOf(process.pid)}\n`;
    const draft = join(dataDir, `.${FILE_NAME}.${process.pid}.${randomBytes(4).toString('hex')}`);
    try {
      mkdirSync(dataDir, { recursive: true, mode: 0o700 });
      writeFileSync(draft, text, { flag: 'wx', mode: 0o600 });
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      throw new StoreBootError(
        `DATA_DIR ${dataDir} cannot be written (${code}); give a directory that can, or set REDIS_URL`,
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

  release(): void {
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

/** Links the draft to the lock's name, which fails when it exists; a lock without a living holder is put aside first. */
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
    putAside(file, text);
  }
  throw new StoreBootError(`DATA_DIR ${dataDir} is being taken by another Holdfast; try again`);
}

/** Between reading a stale lock and moving it, another starter may have replaced it; then its lock is given back. */
function putAside(file: string, staleText: string | undefined): void {
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
      // A third starter has the name by now, and the one given back will find that out when it checks its Redis.
    }
  }
  rmSync(aside, { force: true });
}
