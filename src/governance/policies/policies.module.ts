import { Module } from '@nestjs/common';
import { TenantLimitsModule } from '../../tenant-limits/index.js';
import { ListingModule } from '../listing/index.js';
import { PoliciesController } from './policies.controller.js';
import { PoliciesService } from './policies.service.js';

@Module({
  imports: [ListingModule, TenantLimitsModule],
  controllers: [PoliciesController],
  providers: [PoliciesService],
  exports: [PoliciesService],
})
export class PoliciesModule {}
