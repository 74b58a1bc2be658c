import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** As deep as dist/usage and dist/bundle. */
const SCRIPT = fileURLToPath(new URL('../../scripts/duckdb.mjs', import.meta.url));
/** scripts/duckdb.mjs exits with it. */
const NOT_INSTALLED = 64;
/** For JavaScript. DuckDB has a limit of its own. */
const HEAP_MB = 128;
/** An idle process holds up to its limit of memory, and a new one takes a third of a second. */
const IDLE_MS = 60_000;
const LAST_WORDS = 500;

export interface QueryProcessLimits {
  /** The only folder that queries can read from. */
  readonly folder: string;
  readonly memoryMb: number;
  readonly threads: number;
  /** After this, the query is stopped. The start of the process counts. */
  readonly timeoutMs: number;
}

export type Parameter = string | number | bigint | boolean | null | readonly string[];

export interface FileQuery {
  readonly sql: string;
  readonly parameters: Readonly<Record<string, Parameter>>;
  /** The relations, as SQL, that the query may read from by their names. */
  readonly views?: Readonly<Record<string, string>>;
  /** Further rows are left out. */
  readonly most: number;
}

/** Values as text, exact. */
export interface FileRows {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly (string | null)[])[];
  /** Whether rows were left out. */
  readonly more: boolean;
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
   * @param signal stops the query
   * @throws FileQueryFailed
   */
  async run(query: FileQuery, signal?: AbortSignal): Promise<FileRows> {
    clearTimeout(this.idle);
    if (this.child?.hasEnded !== false) {
      this.child = new RunningChild(this.limits, this.script);
    }
    const { child } = this;
    const timer = setTimeout(() => child.kill('timeout'), this.limits.timeoutMs);
    const leave = (): void => child.kill('gone');
    signal?.addEventListener('abort', leave, { once: true });
    try {
      if (signal?.aborted === true) {
        leave();
      }
      return await child.ask(query);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', leave);
      this.idle = setTimeout(() => this.stop(), IDLE_MS).unref();
    }
  }

  stop(): void {
    clearTimeout(this.idle);
    this.child?.kill('gone');
    this.child = undefined;
  }
}

type Answer = FileRows | { readonly error: string };

class RunningChild {
  private readonly child: ChildProcess;
  private readonly ended: Promise<FileQueryFailed>;
  private end: FileQueryFailed | undefined;
  private reason: 'timeout' | 'gone' | undefined;
  private lastWords = '';

  constructor(limits: QueryProcessLimits, script: string) {
    const { folder, memoryMb, threads } = limits;
    this.child = fork(script, [JSON.stringify({ folder, memoryMb, threads })], {
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
        this.end ??= this.failureOf(how, code, limits.timeoutMs);
        done(this.end);
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
    this.child.kill('SIGKILL');
  }

  /** @throws FileQueryFailed */
  async ask(query: FileQuery): Promise<FileRows> {
    const answered = this.answer(query);
    // While somebody waits, it does.
    this.child.ref();
    this.child.channel?.ref();
    const answer = await Promise.race([answered, this.ended]);
    this.child.unref();
    this.child.channel?.unref();
    if (answer instanceof FileQueryFailed) {
      throw answer;
    }
    if ('error' in answer) {
      throw new FileQueryFailed('refused', answer.error);
    }
    return answer;
  }

  private answer(query: FileQuery): Promise<Answer> {
    return new Promise((done) => {
      this.child.once('message', (answer) => done(answer as Answer));
      // A failure to send means that it has ended.
      this.child.send(query, () => undefined);
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
