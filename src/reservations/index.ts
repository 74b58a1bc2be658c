export { SubjectLevelsDto } from './request-parts.dto.js';
export { ReservationsModule } from './reservations.module.js';
