/** What main.ts stops on a signal. */
export interface Running {
  stop(signal: string): Promise<void>;
}

/** A worker sends this to its parent once it serves. */
export interface Listening {
  readonly kind: 'listening';
  readonly port: number;
  readonly adminPort: number | undefined;
}

/** A worker sends this to its parent once a second, as long as its event loop turns. */
export interface Alive {
  readonly kind: 'alive';
}

export const BEAT_MS = 1000;
