/**
 * The service's time, which is that of Redis. Windows that end now, countdowns and the like go by it, so a browser whose clock is wrong
 * shows the same. What the browser's clock is off by is learned with the session and with each live snapshot.
 */
let aheadMs = 0;

// eslint-disable-next-line no-restricted-syntax -- the one place
const browserNowMs = (): number => Date.now();

export function learnServerTime(nowMs: number): void {
  aheadMs = nowMs - browserNowMs();
}

/** What the service's time was, or is, when the browser's clock shows this. */
export const serverMsOf = (browserMs: number): number => browserMs + aheadMs;

export const serverNowMs = (): number => serverMsOf(browserNowMs());
