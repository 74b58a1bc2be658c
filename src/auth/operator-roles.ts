/** What operators may do, from the least to the most. Each role includes those before it. */
export const OPERATOR_ROLES = ['metrics', 'viewer', 'operator', 'admin'] as const;
export type OperatorRole = (typeof OPERATOR_ROLES)[number];

/** The one table of roles, for the documentation. Where a role is needed, `@Access` or `requireRole` says so. */
export const ROLE_WORDS: Readonly<Record<OperatorRole, string>> = {
  metrics: 'Scrape `/metrics`.',
  viewer: 'Read everything that operators can read, change nothing.',
  operator: 'Change everything but what only `admin` may.',
  admin:
    "Create, change, rotate and revoke operators, close tenants, replace the rules for webhooks' targets, move the test clock.",
};

/** Whether a role includes another one. */
export function includesRole(role: OperatorRole, needed: OperatorRole): boolean {
  return OPERATOR_ROLES.indexOf(role) >= OPERATOR_ROLES.indexOf(needed);
}

export function isOperatorRole(text: unknown): text is OperatorRole {
  return OPERATOR_ROLES.some((role) => role === text);
}
