export { type DenyDetail, denyDetailOf, windowKeyOf } from './deny-detail.js';
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
