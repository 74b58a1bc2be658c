import { Module } from '@nestjs/common';
import { ExpiryModule } from '../expiry/index.js';
import { GovernanceModule } from '../governance/index.js';
import { Advance } from './advance.js';
import { TestClockController } from './test-clock.controller.js';
import { TestClockService } from './test-clock.service.js';

@Module({
  imports: [ExpiryModule, GovernanceModule],
  controllers: [TestClockController],
  providers: [Advance, TestClockService],
})
export class TestClockModule {}
