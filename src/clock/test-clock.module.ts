import { Module } from '@nestjs/common';
import { ExpiryModule } from '../expiry/index.js';
import { BudgetsModule } from '../governance/index.js';
import { ListingModule } from '../redis/index.js';
import { Advance } from './advance.js';
import { TestClockController } from './test-clock.controller.js';
import { TestClockService } from './test-clock.service.js';

@Module({
  imports: [BudgetsModule, ExpiryModule, ListingModule],
  controllers: [TestClockController],
  providers: [Advance, TestClockService],
})
export class TestClockModule {}
