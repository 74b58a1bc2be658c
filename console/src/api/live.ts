import { useSyncExternalStore } from 'react';
import { readJson } from './json';
import { learnServerTime } from './server-time';
import { endSession } from './session';

/** LiveSnapshot of src/operators/live-figures.ts: what the server sends once a second. */
export interface LiveSnapshot {
  readonly at_ms: number;
  readonly readiness: { readonly ready: boolean; readonly details: Readonly<Record<string, Check>> };
  /** Whether the instance that answers records what it does. */
  readonly records_activity: boolean;
  readonly activity?: Activity;
  readonly sweeper?: {
    readonly holds: number;
    readonly backlog: number;
    readonly lateness_ms: number;
    readonly quarantined: number;
    readonly awaiting_cleanup: number;
    readonly instances: number;
    readonly unheld: number;
    readonly partitions: number;
    readonly next_deadline_at_ms?: number;
  };
  readonly memory: readonly { readonly atMs: number; readonly usedBytes: number }[];
}

export interface Check {
  readonly status: 'up' | 'down';
  readonly message?: string;
  readonly problems?: readonly string[];
  readonly memory?: { readonly usedBytes: number; readonly maxmemoryBytes: number };
}

export type RateName = 'reserves' | 'commits' | 'denials' | 'expirations';

export interface Activity {
  readonly per_second: Readonly<Record<RateName, number>>;
  readonly last_hour: Readonly<Record<RateName, number>>;
  readonly slots: { readonly first_at_ms: number; readonly slot_ms: number } & Readonly<
    Record<RateName, readonly number[]>
  >;
  readonly lateness: { readonly bounds_ms: readonly number[]; readonly counts: readonly number[] };
}

export interface Live {
  readonly snapshot: LiveSnapshot | undefined;
  /** Whether snapshots are arriving. */
  readonly isLive: boolean;
}

/** Without a snapshot for this long, the figures are no longer live. */
const STALE_AFTER_MS = 5000;

let state: Live = { snapshot: undefined, isLive: false };
let source: EventSource | undefined;
let staleTimer: number | undefined;
const listeners = new Set<() => void>();

function publish(next: Live): void {
  state = next;
  listeners.forEach((listener) => listener());
}

function open(): void {
  source = new EventSource('/console/api/stream');
  source.onmessage = ({ data }: MessageEvent<string>) => {
    const snapshot = readJson(data) as LiveSnapshot;
    learnServerTime(snapshot.at_ms);
    publish({ snapshot, isLive: true });
    window.clearTimeout(staleTimer);
    staleTimer = window.setTimeout(() => publish({ ...state, isLive: false }), STALE_AFTER_MS);
  };
  source.addEventListener('ended', ({ data }: MessageEvent<string>) => {
    if (data === 'session') {
      close();
      endSession();
    }
  });
  source.onerror = () => {
    publish({ ...state, isLive: false });
    // The browser reconnects by itself after a lost connection, but not after a refusal.
    if (source?.readyState === EventSource.CLOSED) {
      window.setTimeout(() => {
        if (listeners.size > 0 && source?.readyState === EventSource.CLOSED) {
          open();
        }
      }, STALE_AFTER_MS);
    }
  };
}

function close(): void {
  source?.close();
  source = undefined;
  window.clearTimeout(staleTimer);
  state = { snapshot: undefined, isLive: false };
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  if (source === undefined) {
    open();
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      close();
    }
  };
}

/** The live figures. The stream is open while a mounted component uses them. */
export function useLive(): Live {
  return useSyncExternalStore(subscribe, () => state);
}
