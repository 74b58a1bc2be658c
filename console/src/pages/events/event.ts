import type { Page } from '../../api/list';

/** Event of the API. */
export interface CyclesEvent {
  readonly event_id: string;
  readonly event_type: string;
  readonly category: string;
  readonly timestamp: string;
  readonly tenant_id: string;
  readonly scope?: string;
  readonly actor?: { readonly type: string; readonly key_id?: string };
  readonly data: Readonly<Record<string, unknown>>;
  readonly correlation_id?: string;
  readonly request_id?: string;
  readonly trace_id?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

export interface EventList extends Page {
  readonly events: readonly CyclesEvent[];
}

export const CATEGORIES: Readonly<Record<string, string>> = {
  budget: 'Budget',
  reservation: 'Reservation',
  tenant: 'Tenant',
  api_key: 'API key',
  policy: 'Policy',
  webhook: 'Webhook',
  system: 'System',
};

/** The category of one of the types of types.ts. */
export function categoryOf(type: string): string {
  const [segment = ''] = type.replace(/^custom\./, '').split('.');
  return segment === 'direct_debit' ? 'budget' : segment === 'quota' ? 'policy' : segment;
}

/** Whether an event belongs to a tenant and not to the deployment. */
export const hasTenant = ({ tenant_id: id }: Pick<CyclesEvent, 'tenant_id'>): boolean => !id.startsWith('__');

/** Refused reserves and refused direct debits. */
export const DENIALS: readonly string[] = ['reservation.denied', 'custom.direct_debit.denied'];
