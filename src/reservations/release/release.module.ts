import { Module } from '@nestjs/common';
import { ReservationStoreModule } from '../reservation-store.module.js';
import { ReleaseController } from './release.controller.js';
import { ReleaseService } from './release.service.js';

@Module({ imports: [ReservationStoreModule], controllers: [ReleaseController], providers: [ReleaseService] })
export class ReleaseModule {}
