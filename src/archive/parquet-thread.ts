import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { ResultOf, Task } from './parquet-tasks.js';

/** As deep as `dist/bundle` and `src/archive`. */
const THREAD = fileURLToPath(new URL('../../scripts/archive-thread.mjs', import.meta.url));
/** Two row groups and what is made of them take less than a quarter of it. More is a fault that must not take the service's memory. */
const MEMORY_MB = 512;

interface Waiting {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
}

interface Answer {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: { readonly message: string; readonly code?: string };
}

/** Reads and writes Parquet files in a thread, which starts with the first task. A thread that ends takes its tasks with it; the next one starts another. */
export class ParquetThread {
  private worker: Worker | undefined;
  private readonly waiting = new Map<number, Waiting>();
  private lastId = 0;

  /** @throws the error of the file system, with its code; or that the thread has ended */
  run<T extends Task>(task: T): Promise<ResultOf<T>> {
    this.worker ??= this.start();
    const id = ++this.lastId;
    this.worker.postMessage({ id, task });
    const done = new Promise<unknown>((resolve, reject) => this.waiting.set(id, { resolve, reject }));
    this.keepAlive(this.worker);
    return done as Promise<ResultOf<T>>;
  }

  /** Only a task keeps a process alive that has nothing else to do. */
  private keepAlive(worker: Worker): void {
    if (this.waiting.size > 0) {
      worker.ref();
    } else {
      worker.unref();
    }
  }

  async stop(): Promise<void> {
    await this.worker?.terminate();
  }

  private start(): Worker {
    const worker = new Worker(THREAD, { resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB } });
    worker.on('message', ({ id, result, error }: Answer) => {
      const waiting = this.waiting.get(id);
      this.waiting.delete(id);
      this.keepAlive(worker);
      if (error === undefined) {
        waiting?.resolve(result);
      } else {
        waiting?.reject(Object.assign(new Error(error.message), { code: error.code }));
      }
    });
    const end = (error: Error): void => {
      // After an error, the thread also exits. By then, another one may have tasks.
      if (this.worker !== worker) {
        return;
      }
      this.worker = undefined;
      for (const { reject } of this.waiting.values()) {
        reject(error);
      }
      this.waiting.clear();
    };
    worker.on('error', end);
    worker.on('exit', () => end(new Error('the thread that writes the archive has ended')));
    return worker;
  }
}
