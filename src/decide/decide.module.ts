import { Module } from '@nestjs/common';
import { ReservationStoreModule } from '../reservations/index.js';
import { DecideController } from './decide.controller.js';
import { DecideService } from './decide.service.js';

@Module({ imports: [ReservationStoreModule], controllers: [DecideController], providers: [DecideService] })
export class DecideModule {}
