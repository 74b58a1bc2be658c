// The console imports this file, so it imports nothing.

export const DAY_MS = 86_400_000;

/** Bounds of the protocol for the time that a hold lives, and for one extension of it. */
export const MIN_TTL_MS = 1000;
export const MAX_TTL_MS = DAY_MS;
