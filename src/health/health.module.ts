import { Module } from '@nestjs/common';
import { TerminusModule } from '@nestjs/terminus';
import { MetricsModule } from '../metrics/index.js';
import { HealthContributors } from './health-contributors.js';
import { HealthController } from './health.controller.js';
import { ReadinessCheck } from './readiness.js';
import { ReadinessMetrics } from './readiness.metrics.js';
import { ShutdownState } from './shutdown-state.js';
import { StoreHealth } from './store-health.js';

@Module({
  // The metrics and the probes themselves tell of red readiness; a log line a probe would only be noise.
  imports: [MetricsModule, TerminusModule.forRoot({ logger: false })],
  controllers: [HealthController],
  providers: [HealthContributors, ReadinessCheck, ReadinessMetrics, ShutdownState, StoreHealth],
  exports: [HealthContributors, ShutdownState],
})
export class HealthModule {}
