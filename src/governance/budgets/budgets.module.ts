import { Module } from '@nestjs/common';
import { TenantLimitsModule } from '../../tenant-limits/index.js';
import { ListingModule } from '../listing/index.js';
import { BudgetChangesService } from './budget-changes.service.js';
import { BudgetsController } from './budgets.controller.js';
import { BudgetsService } from './budgets.service.js';
import { FundingService } from './funding.service.js';

@Module({
  imports: [ListingModule, TenantLimitsModule],
  controllers: [BudgetsController],
  providers: [BudgetsService, BudgetChangesService, FundingService],
  exports: [BudgetsService, FundingService],
})
export class BudgetsModule {}
