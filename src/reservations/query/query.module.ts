import { Module } from '@nestjs/common';
import { ReservationStoreModule } from '../reservation-store.module.js';
import { QueryController } from './query.controller.js';
import { QueryService } from './query.service.js';

@Module({ imports: [ReservationStoreModule], controllers: [QueryController], providers: [QueryService] })
export class QueryModule {}
