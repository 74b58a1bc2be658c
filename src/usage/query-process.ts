import { type ChildProcess, fork } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { newSpill } from '../archive/index.js';

/** From here, and from dist/bundle. */
const SCRIPT = fileURLToPath(new URL('../usage/duckdb.mjs', import.meta.url));
/** duckdb.mjs exits with it. */
const NOT_INSTALLED = 64;
/** For JavaScript. DuckDB has a limit of its own. */
const HEAP_MB = 128;
/** An idle process holds up to its limit of memory, and a new one takes a third of a second. */
const IDLE_MS = 60_000;
const LAST_WORDS = 500;

export interface QueryProcessLimits {
  /** The only folder that queries can read from. What does not fit into memory is spilled to a folder in it, which is removed with the process. */
  readonly folder: string;
  readonly memoryMb: number;
  readonly spillMb: number;
  readonly threads: number;
  /** After this, the query is stopped. The start of the process counts; what the reader does between two batches does not. */
  readonly timeoutMs: number;
}

export type Parameter = string | number | bigint | boolean | null | readonly string[];

export interface FileQuery {
  readonly sql: string;
  readonly parameters: Readonly<Record<string, Parameter>>;
  /** The relations, as SQL, that the query may read from by their names. */
  readonly views?: Readonly<Record<string, string>>;
}

/** Values as text, exact. */
export interface FileRows {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly (string | null)[])[];
}

/**
 * Why a query has no rows. `missing`: DuckDB is not installed. `timeout`: it took too long and was stopped. `died`: its process ended.
 * `gone`: nobody waits for it any more. `refused`: DuckDB could not run it, as with a file that is cut.
 */
export type QueryFailure = 'missing' | 'timeout' | 'died' | 'gone' | 'refused';

export class FileQueryFailed extends Error {
  override readonly name = 'FileQueryFailed';

  constructor(
    readonly failure: QueryFailure,
    message: string,
  ) {
    super(message);
  }
}

/** Runs DuckDB in a process of its own, one query at a time. It starts with the first query, and again with the first one after its end. */
export class QueryProcess {
  private child: RunningChild | undefined;
  private idle: NodeJS.Timeout | undefined;

  constructor(
    private readonly limits: QueryProcessLimits,
    private readonly script = SCRIPT,
  ) {}

  /** Of the running process. */
  get pid(): number | undefined {
    return this.child?.hasEnded === false ? this.child.pid : undefined;
  }

  /**
   * All rows of a query that has not many.
   * @param signal stops the query
   * @throws FileQueryFailed
   */
  async run(query: FileQuery, signal?: AbortSignal): Promise<FileRows> {
    let columns: FileRows['columns'] = [];
    const rows: FileRows['rows'][number][] = [];
    for await (const batch of this.stream(query, signal)) {
      ({ columns } = batch);
      rows.push(...batch.rows);
    }
    return { columns, rows };
  }

  /**
   * Rows in batches of up to 2,048, each read when it is asked for. The last one is empty.
   * @param signal stops the query
   * @throws FileQueryFailed, which may be after some batches
   */
  async *stream(query: FileQuery, signal?: AbortSignal): AsyncGenerator<FileRows> {
    clearTimeout(this.idle);
    if (this.child?.hasEnded !== false) {
      this.child = new RunningChild(this.limits, this.script);
    }
    const { child } = this;
    let leftMs = this.limits.timeoutMs;
    const ask = async (message: FileQuery | 'next'): Promise<Batch> => {
      const began = performance.now();
      const timer = setTimeout(() => child.kill('timeout'), leftMs);
      try {
        return await child.ask(message);
      } finally {
        clearTimeout(timer);
        leftMs -= performance.now() - began;
      }
    };
    const leave = (): void => child.kill('gone');
    signal?.addEventListener('abort', leave, { once: true });
    try {
      if (signal?.aborted === true) {
        leave();
      }
      let batch = await ask(query);
      yield batch;
      while (batch.more) {
        batch = await ask('next');
        yield batch;
      }
    } finally {
      signal?.removeEventListener('abort', leave);
      this.idle = setTimeout(() => void this.stop(), IDLE_MS).unref();
    }
  }

  /** Once this resolves, nothing is left of the process. */
  async stop(): Promise<void> {
    clearTimeout(this.idle);
    const { child } = this;
    this.child = undefined;
    child?.kill('gone');
    await child?.ended;
  }
}

interface Batch extends FileRows {
  readonly more: boolean;
}

type Answer = Batch | { readonly error: string };

class RunningChild {
  private readonly child: ChildProcess;
  /** Resolves when what it has spilled is removed, too. */
  readonly ended: Promise<FileQueryFailed>;
  private end: FileQueryFailed | undefined;
  private reason: 'timeout' | 'gone' | undefined;
  private lastWords = '';

  constructor(limits: QueryProcessLimits, script: string) {
    const { folder, memoryMb, spillMb, threads } = limits;
    const spill = newSpill(folder);
    this.child = fork(script, [JSON.stringify({ folder, memoryMb, spill, spillMb, threads })], {
      // It needs none of the secrets that this process has.
      env: {},
      execArgv: [`--max-old-space-size=${HEAP_MB}`],
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    this.child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.lastWords = (this.lastWords + text).slice(-LAST_WORDS);
    });
    this.ended = new Promise((done) => {
      const endedBy = (how: string, code: number | null): void => {
        const end = this.failureOf(how, code, limits.timeoutMs);
        this.end ??= end;
        // What cannot be removed is left to the archiver, which tells of its failures.
        rm(spill, { recursive: true, force: true }).then(
          () => done(end),
          () => done(end),
        );
      };
      this.child.once('error', (error) => endedBy(error.message, null));
      // Not 'exit', because what it has written last may still be on its way.
      this.child.once('close', (code, signal) => endedBy(signal ?? `exit code ${code}`, code));
    });
    // It does not keep this process from ending.
    this.child.unref();
    this.child.channel?.unref();
    (this.child.stderr as { unref?: () => void } | null)?.unref?.();
  }

  get pid(): number | undefined {
    return this.child.pid;
  }

  get hasEnded(): boolean {
    return this.end !== undefined || this.reason !== undefined;
  }

  kill(reason: 'timeout' | 'gone'): void {
    this.reason ??= reason;
    // This process goes on until it has removed what the other one has spilled.
    this.child.ref();
    this.child.kill('SIGKILL');
  }

  /** @throws FileQueryFailed */
  async ask(message: FileQuery | 'next'): Promise<Batch> {
    const answered = this.answer(message);
    // While somebody waits, it does.
    this.child.ref();
    this.child.channel?.ref();
    const answer = await Promise.race([answered, this.ended]);
    if (this.reason === undefined) {
      this.child.unref();
      this.child.channel?.unref();
    }
    if (answer instanceof FileQueryFailed) {
      throw answer;
    }
    if ('error' in answer) {
      throw new FileQueryFailed('refused', answer.error);
    }
    return answer;
  }

  private answer(message: FileQuery | 'next'): Promise<Answer> {
    return new Promise((done) => {
      this.child.once('message', (answer) => done(answer as Answer));
      // A failure to send means that it has ended.
      this.child.send(message, () => undefined);
    });
  }

  private failureOf(how: string, code: number | null, timeoutMs: number): FileQueryFailed {
    if (this.reason === 'timeout') {
      return new FileQueryFailed(
        'timeout',
        `the query was stopped because it took longer than ${timeoutMs / 1000} s`,
      );
    }
    if (this.reason === 'gone') {
      return new FileQueryFailed('gone', 'nobody waits for the query any more');
    }
    return code === NOT_INSTALLED
      ? new FileQueryFailed('missing', 'the package @duckdb/node-api is not installed')
      : new FileQueryFailed(
          'died',
          `the process of the query ended (${how}): ${this.lastWords.trim() || 'it said nothing'}`,
        );
  }
}
