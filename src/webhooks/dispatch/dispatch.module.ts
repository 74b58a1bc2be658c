import { Module } from '@nestjs/common';
import { HealthModule } from '../../http/index.js';
import { MetricsModule } from '../../telemetry/index.js';
import { WorkerModule } from '../../worker/index.js';
import { SecretsModule } from '../signing/secret-box.js';
import { SubscriptionAccessModule } from '../subscriptions/subscription-access.js';
import { TransportModule } from '../transport/webhook-transport.js';
import { Attempts } from './attempts.js';
import { DeliveryStore } from './delivery-store.js';
import { DispatchLeases } from './dispatch-leases.js';
import { DispatchMetrics } from './dispatch.metrics.js';
import { Dispatcher } from './dispatcher.service.js';
import { EventReader } from './event-reader.js';
import { OrderedQueues } from './ordered-queues.js';
import { RetiredQueue } from './retired-queue.js';
import { Retries } from './retries.js';
import { Settlement } from './settlement.js';
import { SubscriptionTally } from './subscription-tally.js';

@Module({
  imports: [
    HealthModule,
    MetricsModule,
    SecretsModule,
    SubscriptionAccessModule,
    TransportModule,
    WorkerModule,
  ],
  providers: [
    Attempts,
    DeliveryStore,
    DispatchLeases,
    DispatchMetrics,
    Dispatcher,
    EventReader,
    OrderedQueues,
    RetiredQueue,
    Retries,
    Settlement,
    SubscriptionTally,
  ],
})
export class DispatchModule {}
