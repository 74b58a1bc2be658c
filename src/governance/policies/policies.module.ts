import { Module } from '@nestjs/common';
import { ListingModule } from '../listing/index.js';
import { PoliciesController } from './policies.controller.js';
import { PoliciesService } from './policies.service.js';

@Module({ imports: [ListingModule], controllers: [PoliciesController], providers: [PoliciesService], exports: [PoliciesService] })
export class PoliciesModule {}
