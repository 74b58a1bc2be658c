/** The entries of the navigation, in groups. A page appears here once it is in app/router.tsx. */
export interface NavGroup {
  readonly label?: string;
  readonly entries: readonly { readonly to: string; readonly label: string }[];
}

export const NAV: readonly NavGroup[] = [
  { entries: [{ to: '/', label: 'Overview' }] },
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
      { to: '/sweeper', label: 'Sweeper' },
      { to: '/webhooks', label: 'Webhooks' },
      { to: '/operators', label: 'Operators' },
      { to: '/verify', label: 'Verify' },
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
