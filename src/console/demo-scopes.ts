export const UNIT = 'TOKENS';
export const TENANT = 'demo';
export const SUBJECT = { tenant: TENANT, workspace: 'playground', agent: 'writer' } as const;

/** What each demo budget starts with, and what a top-up adds; root first. */
export const ALLOCATIONS: Readonly<Record<string, number>> = {
  [`tenant:${TENANT}`]: 1_000_000,
  [`tenant:${TENANT}/workspace:${SUBJECT.workspace}`]: 500_000,
  [`tenant:${TENANT}/workspace:${SUBJECT.workspace}/agent:${SUBJECT.agent}`]: 100_000,
};

/** The three budgeted scopes, root first. */
export const SCOPES: readonly string[] = Object.keys(ALLOCATIONS);
