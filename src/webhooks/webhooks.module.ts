import { Module } from '@nestjs/common';
import { BulkActionsModule } from '../bulk/index.js';
import { EventLogModule } from '../events/index.js';
import { HealthModule } from '../http/index.js';
import { TenantLimitsModule } from '../limits/index.js';
import { ListingModule } from '../redis/index.js';
import { WorkerModule } from '../worker/index.js';
import { DeliveriesController } from './deliveries/deliveries.controller.js';
import { DeliveriesService, DeliveryFeed } from './deliveries/deliveries.service.js';
import { Attempts } from './dispatch/attempts.js';
import { Dispatcher } from './dispatch/dispatcher.service.js';
import { EventReader } from './dispatch/event-reader.js';
import { OrderedQueues } from './dispatch/ordered-queues.js';
import { Retries } from './dispatch/retries.js';
import { SubscriptionTally } from './dispatch/subscription-tally.js';
import { ProbeController } from './probe/probe.controller.js';
import { Prober, ProbeService } from './probe/probe.service.js';
import { ReplayQueue } from './replay/replay-queue.js';
import { ReplayController } from './replay/replay.controller.js';
import { ReplaySelection, ReplayService } from './replay/replay.service.js';
import { SecretsModule } from './signing/secret-box.js';
import { AdminWebhooksController } from './subscriptions/admin-webhooks.controller.js';
import { BulkActionService } from './subscriptions/bulk-action.service.js';
import { SubscriptionAccessModule } from './subscriptions/subscription-access.js';
import { SubscriptionLists } from './subscriptions/subscription-lists.js';
import { SubscriptionsService } from './subscriptions/subscriptions.service.js';
import { TenantWebhooksController } from './subscriptions/tenant-webhooks.controller.js';
import { TargetPolicyModule } from './target-policy/security-config.controller.js';
import { TransportModule } from './transport/webhook-transport.js';

@Module({
  imports: [
    BulkActionsModule,
    ListingModule,
    TenantLimitsModule,
    SecretsModule,
    TargetPolicyModule,
    SubscriptionAccessModule,
  ],
  controllers: [AdminWebhooksController, TenantWebhooksController],
  providers: [SubscriptionsService, SubscriptionLists, BulkActionService],
})
export class SubscriptionsModule {}

@Module({
  imports: [SubscriptionAccessModule],
  controllers: [DeliveriesController],
  providers: [DeliveriesService, DeliveryFeed],
})
export class DeliveriesModule {}

@Module({
  imports: [SecretsModule, SubscriptionAccessModule, TransportModule],
  controllers: [ProbeController],
  providers: [ProbeService, Prober],
})
export class ProbeModule {}

@Module({
  imports: [EventLogModule, SubscriptionAccessModule],
  controllers: [ReplayController],
  providers: [ReplayService, ReplayQueue, ReplaySelection],
})
export class ReplayModule {}

@Module({
  imports: [HealthModule, SecretsModule, SubscriptionAccessModule, TransportModule, WorkerModule],
  providers: [Attempts, Dispatcher, EventReader, OrderedQueues, Retries, SubscriptionTally],
})
export class DispatchModule {}

/** Subscriptions to events, and their delivery. */
@Module({
  imports: [
    DeliveriesModule,
    DispatchModule,
    ProbeModule,
    ReplayModule,
    SubscriptionsModule,
    TargetPolicyModule,
  ],
})
export class WebhooksModule {}
