import { Module } from '@nestjs/common';
import { HealthModule, RateLimitsModule } from '../http/index.js';
import { EvidenceController } from './evidence.controller.js';
import { EvidenceService } from './evidence.service.js';

@Module({
  imports: [HealthModule, RateLimitsModule],
  controllers: [EvidenceController],
  providers: [EvidenceService],
  exports: [EvidenceService],
})
export class EvidenceModule {}
