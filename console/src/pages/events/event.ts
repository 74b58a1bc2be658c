import type { CyclesEvent } from '../../api/types';

export {
  categoryOf,
  CUSTOM_EVENT_TYPES,
  EVENT_TYPES,
  TENANT_EVENT_CATEGORIES,
} from '../../../../src/ledger/event-types';

export const CATEGORIES: Readonly<Record<string, string>> = {
  budget: 'Budget',
  reservation: 'Reservation',
  tenant: 'Tenant',
  api_key: 'API key',
  policy: 'Policy',
  webhook: 'Webhook',
  system: 'System',
};

/** Whether an event belongs to a tenant and not to the deployment. */
export const hasTenant = ({ tenant_id: id }: Pick<CyclesEvent, 'tenant_id'>): boolean => !id.startsWith('__');

/** Refused reserves and refused direct debits. */
export const DENIALS: readonly string[] = ['reservation.denied', 'custom.direct_debit.denied'];
