import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { ResultOf, Task } from './parquet-tasks.js';

/** From here, and from dist/bundle. */
const THREAD = fileURLToPath(new URL('../archive/archive-thread.mjs', import.meta.url));
/** Two row groups and what is made of them take less than a quarter of it. More is a fault that must not take the service's memory. */
const MEMORY_MB = 512;
/** A step is a row group of 50,000 rows, which takes seconds, also at low priority beside a busy service. */
const STEP_MS = 120_000;
/** One late tick is a process that was stopped, not a thread that is. */
const TICKS = 10;
/** After this long without a task, the thread ends. */
const IDLE_MS = 60_000;
/** What is not reading, such as the start of the thread and the disk, has as many times longer. */
const PATIENCE = 10;

/** A file that cannot be read, or not in time. It harms nothing but its own rows. */
export class DamagedFile extends Error {
  override readonly name = 'DamagedFile';

  constructor(
    readonly path: string,
    readonly why: string,
  ) {
    super(`${path} cannot be read: ${why}`);
  }
}

interface Waiting {
  readonly task: Task;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** What the thread says: what it reads now, or how its task has ended. */
type Message =
  | { readonly reading: string | null }
  | { readonly result: unknown }
  | { readonly error: { readonly message: string; readonly code?: string; readonly damaged?: string } };

/**
 * Reads and writes Parquet files in a thread, one task after the other. It starts with the first task. A damaged file can keep its reader busy for
 * ever: a task that makes no step in time is ended with its thread, and the tasks behind it have the next one.
 */
export class ParquetThread {
  private worker: Worker | undefined;
  /** The first one runs. */
  private readonly tasks: Waiting[] = [];
  private reading: string | null = null;
  private ticks = 0;
  private clock: NodeJS.Timeout | undefined;

  /** @param ended is called when a task was ended, or took the thread with it */
  constructor(
    private readonly ended: () => void = () => undefined,
    private readonly stepMs = STEP_MS,
  ) {}

  /** @throws DamagedFile; an error of the file system, with its code; or that the thread has ended */
  run<T extends Task>(task: T): Promise<ResultOf<T>> {
    return new Promise<unknown>((resolve, reject) => {
      this.tasks.push({ task, resolve, reject });
      if (this.tasks.length === 1) {
        this.begin();
      }
    }) as Promise<ResultOf<T>>;
  }

  /** Tasks that are not done fail. The next one starts another thread. */
  async stop(): Promise<void> {
    clearInterval(this.clock);
    const { worker } = this;
    this.worker = undefined;
    for (const { reject } of this.tasks.splice(0)) {
      reject(new Error('the thread that writes the archive was stopped'));
    }
    await worker?.terminate();
  }

  /** Only a task keeps a process alive that has nothing else to do. */
  private begin(): void {
    clearInterval(this.clock);
    const [first] = this.tasks;
    if (first === undefined) {
      this.worker?.unref();
      this.clock = setInterval(() => void this.stop(), IDLE_MS).unref();
      return;
    }
    this.worker ??= this.start();
    this.worker.ref();
    this.step(null);
    this.clock = setInterval(() => this.tick(), Math.ceil(this.stepMs / TICKS));
    this.worker.postMessage(first.task);
  }

  private step(reading: string | null): void {
    this.reading = reading;
    this.ticks = 0;
  }

  private tick(): void {
    const { worker } = this;
    this.ticks += 1;
    if (worker !== undefined && this.ticks >= TICKS * (this.reading === null ? PATIENCE : 1)) {
      this.end(worker, new Error(`no progress in ${this.stepMs / 1000} s`));
      void worker.terminate();
    }
  }

  private start(): Worker {
    const worker = new Worker(THREAD, { resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB } });
    worker.on('message', (message: Message) => {
      if (this.worker !== worker) {
        return;
      }
      if ('reading' in message) {
        this.step(message.reading);
        return;
      }
      const task = this.tasks.shift();
      if ('result' in message) {
        task?.resolve(message.result);
      } else {
        const { message: why, code, damaged } = message.error;
        task?.reject(
          damaged === undefined ? Object.assign(new Error(why), { code }) : new DamagedFile(damaged, why),
        );
      }
      this.begin();
    });
    worker.on('error', (error) => this.end(worker, error));
    worker.on('exit', () => this.end(worker, new Error('the thread that writes the archive has ended')));
    return worker;
  }

  /** After an error, a thread also exits. By then, another one may have the next task. */
  private end(worker: Worker, error: Error): void {
    if (this.worker !== worker) {
      return;
    }
    this.worker = undefined;
    const task = this.tasks.shift();
    if (task !== undefined) {
      task.reject(this.reading === null ? error : new DamagedFile(this.reading, error.message));
      this.ended();
    }
    this.begin();
  }
}
