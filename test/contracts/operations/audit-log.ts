import { ADMIN_ONLY, refused, type OperationRow } from './table.js';

const LOGS = '/v1/admin/audit/logs';

export const AUDIT_LOG_ROWS: readonly OperationRow[] = [
  {
    id: 'listAuditLogs',
    success: 200,
    sample: async (world) => ({ method: 'GET', path: `${LOGS}?resource_id=${(await world.tenant()).id}` }),
    others: [
      refused(400, 'INVALID_REQUEST', 'both a status and a minimum status', () =>
        Promise.resolve({ method: 'GET', path: `${LOGS}?status=200&status_min=200` }),
      ),
    ],
    impossible: ADMIN_ONLY,
  },
  {
    id: 'getAdminOverview',
    success: 200,
    sample: async (world) => {
      await world.tenant();
      return { method: 'GET', path: '/v1/admin/overview' };
    },
    others: [],
    impossible: { ...ADMIN_ONLY, 400: 'only the key of the request is read' },
  },
];
