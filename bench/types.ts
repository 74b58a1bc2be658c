// Types that the benchmarks share. Nothing loads this file.

export interface Service {
  readonly port: number;
  readonly pid: number;
  /** The socket of its embedded Redis. */
  readonly socket: string;
  readonly stop: () => Promise<void>;
}

/** The result of `provision`. */
export interface Tenant {
  readonly tenant: string;
  readonly scopes: readonly string[];
  readonly keyId: string;
  readonly apiKey: string;
}

export interface Target extends Tenant {
  /** Eight characters that distinguish the idempotency keys of this run. */
  readonly run: string;
}

/** Where the script calls of a tenant go. */
export interface Place extends Target {
  /** The hash tag of its partition. */
  readonly tag: string;
}

/** A process that creates load. `ask` rejects if it fails or takes too long. */
export interface Load<Plan, Result> {
  ask(plan: Plan): Promise<Result>;
  stop(): void;
}

interface TargetPlan {
  readonly port: number;
  readonly seconds: number;
  readonly target: Target;
  /** The number of the first operation; each one has its own, and so its own idempotency keys. */
  readonly first: number;
  /** How many operations a batch or a set has; without it, each has a request of its own. */
  readonly perRequest?: number;
}

/** `closed`: reserves and their commits. `sets`: reserves that nobody settles, of the targets in turn if there are several. */
export interface ClosedPlan extends TargetPlan {
  readonly kind: 'closed' | 'debits' | 'sets' | 'extensions' | 'lists';
  readonly connections: number;
  readonly targets?: readonly Target[];
  readonly ttlMs?: number;
}

/** Operations at fixed instants. `watch`: reserves alone, whose failures are counted. */
export interface OpenPlan extends TargetPlan {
  readonly kind: 'paced' | 'watch';
  /** Operations a second. */
  readonly rate: number;
}

export interface AttackRequest {
  readonly method: 'GET' | 'POST' | 'PATCH';
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** Each connection sends the requests in turn. */
export interface AttackPlan {
  readonly kind: 'attack';
  readonly port: number;
  readonly connections: number;
  readonly seconds: number;
  readonly requests: readonly AttackRequest[];
}

export type HttpPlan = ClosedPlan | OpenPlan | AttackPlan;

interface Latency {
  readonly p50_ms: number;
  readonly p99_ms: number;
  readonly max_ms: number;
}

export interface RateResult {
  readonly operations: number;
  readonly elapsed_s: number;
  readonly per_second: number;
  /** What the load process itself used. */
  readonly cpu_s: number;
  /** The first number that is still unused. */
  readonly next: number;
}

/** How often each outcome occurred: a status, or why there was none. */
export type Counts = Readonly<Record<string, number>>;

export interface HttpResult extends RateResult, Latency {
  readonly requests: number;
  /** Of a closed loop: all statuses. Of what is watched: those of failures. */
  readonly outcomes?: Counts;
}

export type HttpLoad = Load<HttpPlan, HttpResult>;

/** `reserve` and `commit`: exactly `count` calls of one script. `pairs`: both in turn, for `seconds` or `count` of them. */
export interface RawPlan {
  readonly kind: 'reserve' | 'commit' | 'pairs';
  readonly target: Target;
  readonly socketPath: string;
  readonly first: number;
  readonly count?: number;
  readonly seconds?: number;
}

export type RawLoad = Load<RawPlan, RateResult>;

/** CPU seconds over a stretch of a run; those of the service are NaN on systems without /proc. */
export interface CpuUse {
  readonly elapsed_s: number;
  readonly server_cpu_s: number;
  readonly redis_cpu_s: number;
}

export interface Phase extends RateResult, Partial<Latency> {
  readonly server_cpu_s: number;
  readonly redis_cpu_s: number;
}

export type HttpPhase = Phase & HttpResult;

/** Lateness of the sweeper over some holds, or delays of deliveries. */
export interface Lateness extends Latency {
  readonly count: number;
  readonly min_ms: number;
}

export interface Figure {
  readonly name: string;
  readonly measured: string;
  readonly target: string;
  /** Missing if there is no target. */
  readonly met: boolean | undefined;
  /** Whether the summary shows it even without a target. */
  readonly isHeadline?: boolean;
}

export interface Table {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** The number of leading columns that are text; the others are numbers. */
  readonly texts: number;
}

/** What a benchmark measured. */
export interface Measured {
  readonly title: string;
  readonly subject: string;
  readonly store: string;
  readonly tables: readonly Table[];
  readonly figures: readonly Figure[];
}

/** With how to repeat it, and what there is to doubt about it. */
export interface Result extends Measured {
  readonly command: string;
  readonly notes: readonly string[];
}
