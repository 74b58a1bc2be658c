export { Admission, admissionRefusal, admittedScopes, capsJson, recordFields } from './admission.js';
export { StandardMetricsDto } from './commit/commit.dto.js';
export { fingerprintOf, requireSameKey } from './fingerprint.js';
export { operationOf, traceText, type Operation } from './operation.js';
export { AdmissionDto, AmountDto, SubjectLevelsDto } from './request-parts.dto.js';
export {
  actionOf,
  recordOf,
  subjectOf,
  summaryOf,
  type ReservationRecord,
  type ReservationSummary,
} from './query/reservation-view.js';
export { ReservationMetrics } from './reservation.metrics.js';
export { ReservationStore } from './reservation-store.js';
export { ReservationStoreModule } from './reservation-store.module.js';
export { ReservationsModule } from './reservations.module.js';
