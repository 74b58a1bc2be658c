export { BalancesModule } from './balances/balances.controller.js';
export { DecideModule } from './decide/decide.controller.js';
export { DirectDebitModule } from './direct-debit/direct-debit.controller.js';
export {
  actionOf,
  recordOf,
  type ReservationRecord,
  type ReservationSummary,
  subjectOf,
  summaryOf,
} from './query/reservation-view.js';
export { ReservationsModule } from './reservations.module.js';
