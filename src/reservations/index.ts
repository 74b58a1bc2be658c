export { ReservationsModule } from './reservations.module.js';
