import { Module } from '@nestjs/common';
import { ReservationStoreModule } from '../reservation-store.module.js';
import { ExtendController } from './extend.controller.js';
import { ExtendService } from './extend.service.js';

@Module({ imports: [ReservationStoreModule], controllers: [ExtendController], providers: [ExtendService] })
export class ExtendModule {}
