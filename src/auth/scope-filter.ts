import { SCOPE_LEVELS, SEGMENT_MAX_LENGTH, SEGMENT_PATTERN, type ScopeLevel } from '../ledger/index.js';

/**
 * ApiKey.scope_filter of cycles-governance-admin-v0.1.25: where a key may act. An entry is one or more segments joined by
 * '/', each of which a scope must hold; `level:*` asks for nothing. Entries belong together by the deepest level that they
 * name: of one level any entry may match, and every level must. So `["workspace:eng", "agent:*"]` limits a key to the
 * workspace eng, as the document's own example says, and `["agent:a", "agent:b"]` admits both agents.
 */
export type ScopeFilter = readonly string[];

/** Whether a key with this filter may act on a canonical (lower-case) scope path. No entries are no restriction. */
export function scopeAllowed(filter: ScopeFilter, scopePath: string): boolean {
  if (filter.length === 0) {
    return true;
  }
  const framed = `/${scopePath}/`;
  const levels = new Map<number, boolean>();
  for (const entry of filter) {
    const segments = entry.split('/');
    const level = Math.max(...segments.map(levelOf));
    levels.set(level, levels.get(level) === true || segments.every((segment) => holds(framed, segment)));
  }
  return [...levels.values()].every((matched) => matched);
}

function levelOf(segment: string): number {
  return SCOPE_LEVELS.indexOf(segment.slice(0, Math.max(segment.indexOf(':'), 0)) as ScopeLevel);
}

function holds(framed: string, segment: string): boolean {
  return segment.endsWith(':*') || framed.includes(`/${segment}/`);
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
