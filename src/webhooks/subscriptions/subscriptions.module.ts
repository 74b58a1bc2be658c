import { Module } from '@nestjs/common';
import { TenantLimitsModule } from '../../limits/index.js';
import { ListingModule } from '../../redis/index.js';
import { SecretsModule } from '../signing/secret-box.js';
import { TargetPolicyModule } from '../target-policy/security-config.controller.js';
import { AdminWebhooksController } from './admin-webhooks.controller.js';
import { BulkActionService } from './bulk-action.service.js';
import { SubscriptionAccessModule } from './subscription-access.js';
import { SubscriptionLists } from './subscription-lists.js';
import { SubscriptionsService } from './subscriptions.service.js';
import { TenantWebhooksController } from './tenant-webhooks.controller.js';

@Module({
  imports: [ListingModule, TenantLimitsModule, SecretsModule, TargetPolicyModule, SubscriptionAccessModule],
  controllers: [AdminWebhooksController, TenantWebhooksController],
  providers: [SubscriptionsService, SubscriptionLists, BulkActionService],
})
export class SubscriptionsModule {}
