import type { get as read } from '../../api/client';

/** A scope, and the units in which it has a budget. */
export interface Seen {
  readonly scope: string;
  readonly units: ReadonlySet<string>;
}

const READ = 100;

/** A scope and all above it. */
const withAncestors = (scope: string): string[] =>
  scope.split('/').map((_, index, levels) => levels.slice(0, index + 1).join('/'));

/** The scopes of the tenant's first budgets and of its last reservations. */
export async function seenScopes(tenantId: string, get: typeof read): Promise<readonly Seen[]> {
  const [{ ledgers }, { reservations }] = await Promise.all([
    get('/v1/admin/budgets', { tenant_id: tenantId, limit: READ }),
    get('/v1/reservations', { tenant: tenantId, limit: READ }),
  ]);
  const found = new Map<string, Set<string>>(
    reservations
      .flatMap(({ scope_path: path }) => withAncestors(path))
      .map((scope) => [scope, new Set<string>()]),
  );
  for (const { scope, unit } of ledgers) {
    found.set(scope, (found.get(scope) ?? new Set()).add(unit));
  }
  return [...found].map(([scope, units]) => ({ scope, units }));
}

/** The scopes that a template's pattern matches: each `*` stands for one value of its level. */
export function matchedBy(pattern: string, scopes: readonly Seen[]): readonly Seen[] {
  const wanted = pattern.toLowerCase().split('/');
  return scopes.filter(({ scope }) => {
    const levels = scope.split('/');
    return (
      levels.length === wanted.length &&
      levels.every((level, index) => {
        const segment = wanted[index] ?? '';
        return segment.endsWith(':*') ? level.startsWith(segment.slice(0, -1)) : level === segment;
      })
    );
  });
}
