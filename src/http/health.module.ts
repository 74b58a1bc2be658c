import { Module } from '@nestjs/common';
import { TerminusModule } from '@nestjs/terminus';
import { HealthContributors, MetricsModule, ShutdownState } from '../telemetry/index.js';
import { HealthController, ReadinessCheck, ReadinessMetrics, StoreHealth } from './health.controller.js';

@Module({
  // The metrics and the probes themselves tell of red readiness; a log line a probe would only be noise.
  imports: [MetricsModule, TerminusModule.forRoot({ logger: false })],
  controllers: [HealthController],
  providers: [HealthContributors, ReadinessCheck, ReadinessMetrics, ShutdownState, StoreHealth],
  exports: [HealthContributors, ShutdownState],
})
export class HealthModule {}
