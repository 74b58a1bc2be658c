import { Module } from '@nestjs/common';
import { ExpiryMetricsModule } from '../expiry/index.js';
import { BudgetsModule, TenantsModule } from '../governance/index.js';
import { ListingModule } from '../redis/index.js';
import { ClockAdvance } from './clock-advance.js';
import { TestClocksController } from './test-clocks.controller.js';
import { TestClocksService } from './test-clocks.service.js';

@Module({
  imports: [BudgetsModule, ExpiryMetricsModule, ListingModule, TenantsModule],
  controllers: [TestClocksController],
  providers: [ClockAdvance, TestClocksService],
})
export class TestClocksModule {}
