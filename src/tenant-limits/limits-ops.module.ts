import { Module } from '@nestjs/common';
import { LimitsController } from './limits.controller.js';
import { LimitsService } from './limits.service.js';
import { TenantLimitsModule } from './tenant-limits.module.js';

/** The operators' side, apart from the limits themselves, which governance imports. */
@Module({ imports: [TenantLimitsModule], controllers: [LimitsController], providers: [LimitsService] })
export class LimitsOpsModule {}
