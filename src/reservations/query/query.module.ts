import { Module } from '@nestjs/common';
import { ReservationStoreModule } from '../reservation-store.module.js';
import { ListService } from './list.service.js';
import { QueryController } from './query.controller.js';
import { QueryService } from './query.service.js';
import { ReservationIndex } from './reservation-index.js';

@Module({
  imports: [ReservationStoreModule],
  controllers: [QueryController],
  providers: [ListService, QueryService, ReservationIndex],
})
export class QueryModule {}
