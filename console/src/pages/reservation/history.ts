import type { AmountOf } from '../../parts/amount';

/** ReservationHistory of the API, as far as the page uses it. Damaged records have a defect, and are given as they are stored. */
export interface ReservationAnswer {
  readonly reservation_id: string;
  /** UNKNOWN if the record does not say. */
  readonly state: string;
  readonly tenant_id?: string;
  readonly request?: {
    readonly idempotency_key?: string;
    readonly key_id?: string;
    readonly action?: { readonly kind: string; readonly name: string };
    readonly overage_policy?: string;
    readonly ttl_ms?: number;
    readonly grace_period_ms?: number;
  };
  readonly scope_path?: string;
  readonly scopes?: readonly { readonly scope: string; readonly budgeted: boolean }[];
  readonly reserved?: AmountOf;
  readonly created_at_ms?: number;
  readonly expires_at_ms?: number;
  readonly reclaim_at_ms?: number;
  readonly extensions?: readonly { readonly at_ms: number; readonly expires_at_ms?: number }[];
  readonly end?: {
    readonly how: string;
    readonly at_ms: number;
    readonly by?: { readonly type: string; readonly key_id?: string };
    readonly reason?: string;
    readonly charged?: AmountOf;
    readonly returned?: readonly ({ readonly scope: string } & AmountOf)[];
    readonly event?: { readonly event_id: string; readonly event_type: string };
  };
  readonly quarantine?: { readonly reason: string; readonly waiting: boolean };
  readonly defect?: string;
  readonly stored?: Readonly<Record<string, unknown>>;
}

/** The history of a record that can be read. */
export type ReservationHistory = ReservationAnswer &
  Required<Omit<ReservationAnswer, 'request' | 'end' | 'quarantine' | 'defect' | 'stored'>>;

export const isIntact = (answer: ReservationAnswer): answer is ReservationHistory =>
  answer.defect === undefined;
