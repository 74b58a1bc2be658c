import { SCOPE_LEVELS, SEGMENT_MAX_LENGTH, SEGMENT_PATTERN, type ScopeLevel } from '../ledger/index.js';

/**
 * ApiKey.scope_filter of cycles-governance-admin-v0.1.25: where a key may act. An entry is one or more segments joined by
 * '/', each of which a scope must hold; `level:*` stands for any value of that level. Any one entry is enough.
 * `["workspace:eng", "tenant:acme/agent:*"]` admits whatever is in the workspace eng, and every agent of acme.
 */
export type ScopeFilter = readonly string[];

/** Whether a key with this filter may act on a canonical (lower-case) scope path. No entries are no restriction. */
export function scopeAllowed(filter: ScopeFilter, scopePath: string): boolean {
  if (filter.length === 0) {
    return true;
  }
  const framed = `/${scopePath}/`;
  return filter.some((entry) => entry.split('/').every((segment) => holds(framed, segment)));
}

function holds(framed: string, segment: string): boolean {
  return segment.endsWith(':*') ? framed.includes(`/${segment.slice(0, -1)}`) : framed.includes(`/${segment}/`);
}

/** Whether a text is an entry as described above; a level that is misspelt would silently match nothing. */
export function isScopeFilterEntry(text: string): boolean {
  return text.split('/').every((segment) => {
    const colon = segment.indexOf(':');
    const value = segment.slice(colon + 1);
    return (
      SCOPE_LEVELS.includes(segment.slice(0, Math.max(colon, 0)).toLowerCase() as ScopeLevel) &&
      (value === '*' || (SEGMENT_PATTERN.test(value) && value.length <= SEGMENT_MAX_LENGTH))
    );
  });
}
