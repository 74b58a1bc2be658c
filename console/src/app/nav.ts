export interface NavEntry {
  readonly to: string;
  readonly label: string;
  /** It shows what is of the whole deployment, which operators of some tenants may not see. */
  readonly isOfAll?: true;
}

/** The entries of the navigation, in groups. A page appears here once it is in app/router.tsx. */
export interface NavGroup {
  readonly label?: string;
  readonly entries: readonly NavEntry[];
}

export const NAV: readonly NavGroup[] = [
  { entries: [{ to: '/', label: 'Overview', isOfAll: true }] },
  {
    label: 'Ledger',
    entries: [
      { to: '/tenants', label: 'Tenants' },
      { to: '/budgets', label: 'Budgets' },
      { to: '/reservations', label: 'Reservations' },
      { to: '/usage', label: 'Usage' },
    ],
  },
  {
    label: 'Operations',
    entries: [
      { to: '/sweeper', label: 'Sweeper', isOfAll: true },
      { to: '/webhooks', label: 'Webhooks' },
      { to: '/operators', label: 'Operators', isOfAll: true },
      { to: '/verify', label: 'Verify' },
      { to: '/maintenance', label: 'Restore and upgrade', isOfAll: true },
    ],
  },
  {
    label: 'History',
    entries: [
      { to: '/expirations', label: 'Expirations' },
      { to: '/events', label: 'Events' },
      { to: '/requests', label: 'Refused requests' },
      { to: '/audit', label: 'Audit log' },
    ],
  },
];

/** Whether an operator of some tenants may not see the page at a path. */
export const isOfAll = (path: string): boolean =>
  NAV.some(({ entries }) => entries.some((entry) => entry.isOfAll === true && entry.to === path));
