export { type DenyDetail, denyDetailOf } from './deny-detail.js';
export { givenMembers, LEVEL_FIELDS, type ReservationRecord } from './given-fields.js';
export { actionOf, type ReservationSummary, subjectOf, summaryOf } from './query/reservation-view.js';
export {
  BatchModule,
  CommitModule,
  ExtendModule,
  ReleaseModule,
  ReservationsModule,
  ReserveModule,
} from './reservations.module.js';
