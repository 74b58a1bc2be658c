import { Module } from '@nestjs/common';
import { BudgetsModule } from '../governance/index.js';
import { BalancesController } from './balances.controller.js';
import { BalancesService } from './balances.service.js';
import { LedgersService } from './ledgers.service.js';

@Module({
  imports: [BudgetsModule],
  controllers: [BalancesController],
  providers: [BalancesService, LedgersService],
})
export class BalancesModule {}
