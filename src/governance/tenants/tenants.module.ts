import { Module } from '@nestjs/common';
import { ListingModule } from '../listing/index.js';
import { TenantsController } from './tenants.controller.js';
import { TenantsService } from './tenants.service.js';

@Module({ imports: [ListingModule], controllers: [TenantsController], providers: [TenantsService], exports: [TenantsService] })
export class TenantsModule {}
