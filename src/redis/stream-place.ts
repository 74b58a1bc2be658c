/**
 * A time in ms as a bound of a walk through a stream. Stream ids are never negative: before 1970 stands 0-0, which no entry has,
 * so that a window that ends there is empty and one that starts there begins with the first entry.
 */
export function streamBound(ms: number): string {
  return ms < 0 ? '0-0' : ms.toString();
}

const UINT64_MAX = (1n << 64n) - 1n;

/** Whether Redis takes the text for an entry's id; one of a forged cursor may have the right form and be too large. */
export function isStreamId(text: string): boolean {
  const parts = /^(\d{1,14})-(\d{1,20})$/.exec(text);
  return parts !== null && BigInt(parts[2] as string) <= UINT64_MAX;
}
