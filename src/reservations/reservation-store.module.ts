import { Module } from '@nestjs/common';
import { ExpiryMetricsModule } from '../expiry/index.js';
import { MetricsModule } from '../metrics/index.js';
import { Admission } from './admission.js';
import { DamagedRecords } from './damaged-records.js';
import { ReservationMetrics } from './reservation.metrics.js';
import { ReservationStore } from './reservation-store.js';

@Module({
  imports: [ExpiryMetricsModule, MetricsModule],
  providers: [Admission, DamagedRecords, ReservationStore, ReservationMetrics],
  exports: [Admission, DamagedRecords, ReservationStore, ReservationMetrics, ExpiryMetricsModule],
})
export class ReservationStoreModule {}
