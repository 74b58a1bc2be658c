import { refused, type OperationRow } from './table.js';

export const BALANCE_ROWS: readonly OperationRow[] = [
  {
    id: 'getBalances',
    success: 200,
    sample: async (world) => {
      const tenant = await world.tenant();
      return { method: 'GET', path: `/v1/balances?tenant=${tenant.id}`, tenant };
    },
    others: [
      refused(400, 'INVALID_REQUEST', 'no level of a subject', async (world) => ({
        method: 'GET',
        path: '/v1/balances',
        tenant: await world.tenant(),
      })),
      refused(403, 'FORBIDDEN', 'another tenant', async (world) => ({
        method: 'GET',
        path: '/v1/balances?tenant=another',
        tenant: await world.tenant(),
      })),
    ],
  },
];
