import { Module } from '@nestjs/common';
import { LimitsController } from './limits.controller.js';
import { LimitsService, TenantLimits } from './limits.service.js';

@Module({
  controllers: [LimitsController],
  providers: [LimitsService, TenantLimits],
  exports: [TenantLimits],
})
export class LimitsModule {}
