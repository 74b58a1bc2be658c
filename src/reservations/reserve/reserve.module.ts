import { Module } from '@nestjs/common';
import { TenantLimitsModule } from '../../limits/index.js';
import { ReservationStoreModule } from '../reservation-store.module.js';
import { ReserveController } from './reserve.controller.js';
import { ReserveService } from './reserve.service.js';

@Module({
  imports: [ReservationStoreModule, TenantLimitsModule],
  controllers: [ReserveController],
  providers: [ReserveService],
})
export class ReserveModule {}
