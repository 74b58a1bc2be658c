import { Module } from '@nestjs/common';
import { ReservationStoreModule } from '../reservations/index.js';
import { DirectDebitController } from './direct-debit.controller.js';
import { DirectDebitService } from './direct-debit.service.js';

@Module({
  imports: [ReservationStoreModule],
  controllers: [DirectDebitController],
  providers: [DirectDebitService],
})
export class DirectDebitModule {}
