import { hash } from 'node:crypto';

/**
 * Canonical JSON like that of RFC 8785: members sorted by UTF-16 code units, no white space. Unlike RFC 8785, it keeps all digits
 * of integers beyond 2^53.
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

/** The first 132 bits of the SHA-256 of the canonical body, in 22 characters. Requests with one idempotency key are compared by it. */
export function fingerprintOf(body: object): string {
  return hash('sha256', canonicalJson(body), 'base64url').slice(0, 22);
}
