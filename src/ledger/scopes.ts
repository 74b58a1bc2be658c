import { invalidField } from './refusal.js';

/** The levels of a scope, root first: SCOPE DERIVATION in cycles-protocol-v0. */
export const SCOPE_LEVELS = ['tenant', 'workspace', 'app', 'workflow', 'agent', 'toolset'] as const;
export type ScopeLevel = (typeof SCOPE_LEVELS)[number];

export type SubjectLevels = Partial<Record<ScopeLevel, string>>;

/** The value of a level: the portable charset of the protocol, without the separators ':' and '/'. */
export const SEGMENT_PATTERN = /^[a-zA-Z0-9_.-]+$/;
export const SEGMENT_MAX_LENGTH = 128;

/**
 * Derives the canonical scopes of a subject: one full path per given level, root first, in lower case, skipping gaps.
 * `{tenant: 'acme', agent: 'Bot'}` gives `['tenant:acme', 'tenant:acme/agent:bot']`.
 * The tenant is always the caller's effective tenant, even if the subject names none.
 */
export function deriveScopes(subject: SubjectLevels, tenantId: string): string[] {
  let path = `tenant:${tenantId}`;
  const scopes = [path];
  for (let index = 1; index < SCOPE_LEVELS.length; index += 1) {
    const level = SCOPE_LEVELS[index] as ScopeLevel;
    const value = subject[level];
    if (value !== undefined) {
      path += `/${level}:${value.toLowerCase()}`;
      scopes.push(path);
    }
  }
  return scopes;
}

/**
 * The tenant, the levels as given and the unit as one text, with `\u001f` between them: the form in which `reserve` takes a subject and
 * a record stores it (lua/lib/hold_form.lua).
 */
export function subjectText(subject: SubjectLevels, tenantId: string, unit: string): string {
  const { workspace = '', app = '', workflow = '', agent = '', toolset = '' } = subject;
  return `${tenantId}\u001f${workspace}\u001f${app}\u001f${workflow}\u001f${agent}\u001f${toolset}\u001f${unit}`;
}

/** The scope that a filter by prefix names, in canonical form, for `isWithin`. */
export const scopePrefixOf = (text: string | undefined): string => text?.toLowerCase() ?? '';

/**
 * Whether a scope is the one given or below it; with a slash at the end of the given one, only whether it is below. Segments count as a
 * whole: `workspace:eng-2` is not below `workspace:eng`. Every scope is below an empty text. lua/lib/scope_tree.lua has the same rule.
 */
export function isWithin(scope: string, above: string): boolean {
  return scope === above || scope.startsWith(above === '' || above.endsWith('/') ? above : `${above}/`);
}

/**
 * A scope, or a budget's `scope unit`, as a text that sorts as a tree does: each scope before those below it, and these before its next
 * sibling. Budgets stand in the index of their tenant under this text: see lua/lib/scope_tree.lua.
 */
export function treeOrder(text: string): string {
  return text.replaceAll('/', '!');
}

/** The last segment of a scope path, such as `agent:bot` of `tenant:acme/agent:bot`: `Balance.scope` of the protocol. */
export function leafSegment(scopePath: string): string {
  return scopePath.slice(scopePath.lastIndexOf('/') + 1);
}

/** The tenant of a scope path, or undefined if the path does not start with one. */
export function tenantOfScope(scopePath: string): string | undefined {
  return /^tenant:([^/]+)/.exec(scopePath)?.[1];
}

/**
 * Parses a scope path from a request into its canonical form (lower case).
 * @throws Refusal INVALID_REQUEST if it does not start with a tenant, repeats or misorders levels, or has other characters.
 */
export function parseScopePath(text: string): string {
  const path = text.toLowerCase();
  let previous = -1;
  for (const segment of path.split('/')) {
    const colon = segment.indexOf(':');
    const level = SCOPE_LEVELS.indexOf(segment.slice(0, Math.max(colon, 0)) as ScopeLevel);
    const value = segment.slice(colon + 1);
    const ordered = previous === -1 ? level === 0 : level > previous;
    if (!ordered || !SEGMENT_PATTERN.test(value) || value.length > SEGMENT_MAX_LENGTH) {
      throw invalidField(
        'scope',
        `scope must be level:value segments in the order ${SCOPE_LEVELS.join(', ')}, starting at tenant, ` +
          `each value of letters, digits, '_', '.' or '-' and at most ${SEGMENT_MAX_LENGTH} characters`,
      );
    }
    previous = level;
  }
  return path;
}

/** Tenant.tenant_id of cycles-governance-admin-v0.1.25. */
export const TENANT_ID_PATTERN = /^[a-z0-9-]{3,64}$/;
