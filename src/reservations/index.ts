export { type DenyDetail, denyDetailOf } from './deny-detail.js';
export {
  actionOf,
  type ReservationRecord,
  type ReservationSummary,
  subjectOf,
  summaryOf,
} from './query/reservation-view.js';
export {
  BalancesModule,
  DecideModule,
  DirectDebitModule,
  ReservationsModule,
} from './reservations.module.js';
