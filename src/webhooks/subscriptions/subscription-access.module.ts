import { Module } from '@nestjs/common';
import { ListingModule } from '../../governance/listing/index.js';
import { MetricsModule } from '../../metrics/index.js';
import { SubscriptionAccess } from './subscription-access.js';
import { SubscriptionBook } from './subscription-book.js';

/** Subscriptions for those who deliver to them. */
@Module({
  imports: [ListingModule, MetricsModule],
  providers: [SubscriptionAccess, SubscriptionBook],
  exports: [SubscriptionAccess, SubscriptionBook],
})
export class SubscriptionAccessModule {}
