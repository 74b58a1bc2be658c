import { Module } from '@nestjs/common';
import { ReservationStoreModule } from '../reservation-store.module.js';
import { CommitController } from './commit.controller.js';
import { CommitService } from './commit.service.js';

@Module({ imports: [ReservationStoreModule], controllers: [CommitController], providers: [CommitService] })
export class CommitModule {}
