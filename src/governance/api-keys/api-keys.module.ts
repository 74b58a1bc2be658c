import { Module } from '@nestjs/common';
import { AuthModule } from '../../auth/index.js';
import { TenantLimitsModule } from '../../tenant-limits/index.js';
import { ListingModule } from '../listing/index.js';
import { ApiKeysController } from './api-keys.controller.js';
import { ApiKeysService } from './api-keys.service.js';

@Module({
  imports: [AuthModule, ListingModule, TenantLimitsModule],
  controllers: [ApiKeysController],
  providers: [ApiKeysService],
  exports: [ApiKeysService],
})
export class ApiKeysModule {}
