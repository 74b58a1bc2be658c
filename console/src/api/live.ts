import { useSyncExternalStore } from 'react';
import type { LiveSnapshot } from '../../../src/console/page-answers';
import { readJson } from './json';
import { learnServerTime } from './server-time';
import { endSession } from './session';

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
