import { hash } from 'node:crypto';

/**
 * Canonical JSON in the manner of RFC 8785: members in the order of their UTF-16 code units, no white space. Integers
 * beyond 2^53 keep all their digits, which RFC 8785 itself would lose.
 */
function canonicalJson(value: unknown): string {
  if (typeof value === 'bigint') {
    return value.toString();
  }
  if (typeof value !== 'object' || value === null) {
    return JSON.stringify(value);
  }
  if (Array.isArray(value)) {
    return `[${value.map(canonicalJson).join(',')}]`;
  }
  const entries = value as Record<string, unknown>;
  const members = Object.keys(entries)
    .sort()
    .map((name) => `${JSON.stringify(name)}:${canonicalJson(entries[name])}`);
  return `{${members.join(',')}}`;
}

/** 128 bits of SHA-256 over the canonical body, in 22 characters: what a repeated idempotency key is compared by. */
export function fingerprintOf(body: object): string {
  return hash('sha256', canonicalJson(body), 'base64url').slice(0, 22);
}
