// What the console's own operations answer, which are not in the API's document. The console imports this file, so it imports nothing.

/** `session` is null if nobody is logged in. */
export interface SessionAnswer {
  readonly session: {
    readonly id: string;
    readonly role: 'admin' | 'operator' | 'viewer' | 'metrics';
    /** Who it is in the audit log and in events: `operator:<name>`, `oidc:<name>`, or the id. */
    readonly name: string;
    /** That it is confined to; absent for the whole deployment. */
    readonly tenants?: readonly string[];
    readonly expires_in_ms: number;
  } | null;
  /** Whether one can log in by an identity provider, too. */
  readonly has_provider: boolean;
  /** After a log-out: where the browser goes on to log out at the provider. */
  readonly log_out_url?: string;
  readonly now_ms: number;
  /** How far a test clock has put it ahead of Redis' clock; absent without one that was advanced. */
  readonly clock_ahead_ms?: number;
}

export interface Check {
  readonly status: 'up' | 'down' | 'degraded';
  readonly message?: string;
  readonly problems?: readonly string[];
  /** What works now, and that an operator should know of. */
  readonly warnings?: readonly { readonly code: string; readonly message: string }[];
  readonly memory?: { readonly usedBytes: number; readonly maxmemoryBytes: number };
  /** Of Redis: whether Holdfast runs it. */
  readonly embedded?: boolean;
  /** Of Redis: what a copy can be made from. Without a time, a server has made no dump since it started. */
  readonly persistence?: { readonly appendLog: boolean; readonly lastDumpAtMs?: number };
}

export type Rates = Readonly<Record<'reserves' | 'commits' | 'denials' | 'expirations', number>>;

/** Of all instances. */
export interface ActivityFigures {
  readonly per_second: Rates;
  /** Counts of the last hour, with those of the slot that is still being filled. */
  readonly last_hour: Rates;
  /** Per second, in slots of ten seconds, the oldest first. The last slot is still being filled, so it is left out. */
  readonly slots: { readonly first_at_ms: number; readonly slot_ms: number } & Readonly<
    Record<keyof Rates, readonly number[]>
  >;
  /** Expirations of the last hour by how late they were: the upper bounds in ms, and the counts, one more than bounds. */
  readonly lateness: { readonly bounds_ms: readonly number[]; readonly counts: readonly number[] };
}

export interface MemorySample {
  readonly atMs: number;
  readonly usedBytes: number;
}

/** What the overview shows, once a second. */
export interface LiveSnapshot {
  /** Of the instance that answers. */
  readonly version: string;
  readonly at_ms: number;
  readonly readiness: { readonly ready: boolean; readonly details: Readonly<Record<string, Check>> };
  /** Whether the instance that answers records what it does. If not, there is no activity, and no memory of the past. */
  readonly records_activity: boolean;
  /** Absent while it cannot be read. */
  readonly activity?: ActivityFigures;
  readonly sweeper?: {
    readonly holds: number;
    readonly backlog: number;
    readonly lateness_ms: number;
    readonly quarantined: number;
    readonly awaiting_cleanup: number;
    readonly instances: number;
    readonly unheld: number;
    /** Partitions whose keys are damaged: nothing of them is in these figures. */
    readonly unreadable: number;
    readonly partitions: number;
    readonly next_deadline_at_ms?: number;
  };
  readonly memory: readonly MemorySample[];
}
