import { Module } from '@nestjs/common';
import { HealthModule, RateLimitsModule } from '../http/index.js';
import { MetricsModule } from '../telemetry/index.js';
import { EvidenceController } from './evidence.controller.js';
import { EvidenceMetrics, EvidenceService } from './evidence.service.js';

@Module({
  imports: [HealthModule, MetricsModule, RateLimitsModule],
  controllers: [EvidenceController],
  providers: [EvidenceMetrics, EvidenceService],
  exports: [EvidenceService],
})
export class EvidenceModule {}
