import { Module } from '@nestjs/common';
import { ExpiryMetricsModule } from '../expiry/index.js';
import { MetricsModule } from '../telemetry/index.js';
import { Admission } from './admission.js';
import { ReservationStore } from './reservation-store.js';
import { ReservationMetrics } from './reservation.metrics.js';
import { DamagedRecords } from './script-refusals.js';

@Module({
  imports: [ExpiryMetricsModule, MetricsModule],
  providers: [Admission, DamagedRecords, ReservationStore, ReservationMetrics],
  exports: [Admission, DamagedRecords, ReservationStore, ReservationMetrics, ExpiryMetricsModule],
})
export class ReservationStoreModule {}
