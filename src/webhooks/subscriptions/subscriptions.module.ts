import { Module } from '@nestjs/common';
import { ListingModule } from '../../governance/listing/index.js';
import { TenantLimitsModule } from '../../tenant-limits/index.js';
import { SecretsModule } from '../secrets/index.js';
import { TargetPolicyModule } from '../target-policy/index.js';
import { AdminWebhooksController } from './admin-webhooks.controller.js';
import { BulkActionService } from './bulk-action.service.js';
import { SubscriptionAccessModule } from './subscription-access.module.js';
import { SubscriptionLists } from './subscription-lists.js';
import { SubscriptionsService } from './subscriptions.service.js';
import { TenantWebhooksController } from './tenant-webhooks.controller.js';

@Module({
  imports: [ListingModule, TenantLimitsModule, SecretsModule, TargetPolicyModule, SubscriptionAccessModule],
  controllers: [AdminWebhooksController, TenantWebhooksController],
  providers: [SubscriptionsService, SubscriptionLists, BulkActionService],
})
export class SubscriptionsModule {}
