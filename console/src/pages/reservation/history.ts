import type { Schema } from '../../api/operations';

/** Damaged records have a defect, and are given as they are stored. */
export type ReservationAnswer = Schema<'ReservationHistory'>;

/** The history of a record that can be read. */
export type ReservationHistory = ReservationAnswer &
  Required<
    Pick<
      ReservationAnswer,
      | 'tenant_id'
      | 'scope_path'
      | 'scopes'
      | 'reserved'
      | 'created_at_ms'
      | 'expires_at_ms'
      | 'reclaim_at_ms'
      | 'extensions'
    >
  >;

export const isIntact = (answer: ReservationAnswer): answer is ReservationHistory =>
  answer.defect === undefined;

/** What is left of the charge to be refunded. */
export const refundableOf = ({ end }: ReservationHistory): bigint =>
  BigInt(end?.charged?.amount ?? 0) - BigInt(end?.refunded?.amount ?? 0);
