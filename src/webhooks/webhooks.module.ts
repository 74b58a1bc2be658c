import { Module, type OnModuleInit } from '@nestjs/common';
import { BulkActionsModule } from '../bulk/index.js';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { EventLogModule } from '../events/index.js';
import { HttpModule } from '../http/index.js';
import { LimitsModule } from '../limits/index.js';
import { RedisService } from '../redis/index.js';
import { Worker, WorkerModule } from '../worker/index.js';
import { DeliveriesController } from './deliveries/deliveries.controller.js';
import { DeliveriesService, DeliveryFeed } from './deliveries/deliveries.service.js';
import { DeliveryDetailsService } from './deliveries/delivery-details.service.js';
import { EventDeliveriesService } from './deliveries/event-deliveries.service.js';
import { Attempts } from './dispatch/attempts.js';
import { DispatchFigures } from './dispatch/dispatch-figures.js';
import { DispatchLeases } from './dispatch/dispatch-leases.js';
import { Dispatcher } from './dispatch/dispatcher.service.js';
import { EventReader } from './dispatch/event-reader.js';
import { OrderedQueues } from './dispatch/ordered-queues.js';
import { Outcomes } from './dispatch/outcomes.js';
import { Retries } from './dispatch/retries.js';
import { SubscriptionTally } from './dispatch/subscription-tally.js';
import { ProbeController } from './probe/probe.controller.js';
import { Prober, ProbeService } from './probe/probe.service.js';
import { ReplayQueue } from './replay/replay-queue.js';
import { ReplayController } from './replay/replay.controller.js';
import { ReplaySelection, ReplayService } from './replay/replay.service.js';
import { SecretBox } from './signing/secret-box.js';
import { AdminWebhooksController } from './subscriptions/admin-webhooks.controller.js';
import { BulkActionService } from './subscriptions/bulk-action.service.js';
import { SubscriptionAccess } from './subscriptions/subscription-access.js';
import { SubscriptionCache } from './subscriptions/subscription-cache.js';
import { SubscriptionOptionsController } from './subscriptions/subscription-options.controller.js';
import { SubscriptionOptionsService } from './subscriptions/subscription-options.service.js';
import { SubscriptionLists } from './subscriptions/subscription-lists.js';
import { SubscriptionsService } from './subscriptions/subscriptions.service.js';
import { TenantWebhooksController } from './subscriptions/tenant-webhooks.controller.js';
import { resolverOf } from './target-policy/host-lookups.js';
import { SecurityConfigController } from './target-policy/security-config.controller.js';
import { SecuritySettings } from './target-policy/security-settings.js';
import { RESOLVE_HOST, TargetPolicy } from './target-policy/target-policy.js';
import { SignedPosts } from './transport/signed-posts.js';
import { WebhookTransport } from './transport/webhook-transport.js';

/** Subscriptions to events, and their delivery. */
@Module({
  imports: [BulkActionsModule, EventLogModule, HttpModule, LimitsModule, WorkerModule],
  controllers: [
    AdminWebhooksController,
    DeliveriesController,
    ProbeController,
    ReplayController,
    SecurityConfigController,
    SubscriptionOptionsController,
    TenantWebhooksController,
  ],
  providers: [
    BulkActionService,
    SubscriptionAccess,
    SubscriptionCache,
    SubscriptionLists,
    SubscriptionOptionsService,
    SubscriptionsService,
    DeliveriesService,
    DeliveryDetailsService,
    EventDeliveriesService,
    DeliveryFeed,
    Attempts,
    Dispatcher,
    DispatchFigures,
    DispatchLeases,
    EventReader,
    OrderedQueues,
    Outcomes,
    Retries,
    SubscriptionTally,
    Prober,
    ProbeService,
    ReplayQueue,
    ReplaySelection,
    ReplayService,
    SecretBox,
    SecuritySettings,
    SignedPosts,
    TargetPolicy,
    {
      provide: RESOLVE_HOST,
      inject: [CONFIG],
      useFactory: ({ webhookDnsServers }: HoldfastConfig) => resolverOf(webhookDnsServers),
    },
    {
      provide: WebhookTransport,
      inject: [TargetPolicy, RedisService],
      useFactory: (policy: TargetPolicy, { clock }: RedisService) => new WebhookTransport(policy, clock),
    },
  ],
  exports: [SubscriptionCache],
})
export class WebhooksModule implements OnModuleInit {
  constructor(
    private readonly worker: Worker,
    private readonly dispatcher: Dispatcher,
  ) {}

  onModuleInit(): void {
    this.worker.add(this.dispatcher);
  }
}
