import { Module } from '@nestjs/common';
import { HealthModule } from '../../http/index.js';
import { MetricsModule } from '../../telemetry/index.js';
import { SecretsModule } from '../signing/secret-box.js';
import { SubscriptionAccessModule } from '../subscriptions/subscription-access.js';
import { TransportModule } from '../transport/webhook-transport.js';
import { Attempts } from './attempts.js';
import { DeliveryStore } from './delivery-store.js';
import { DispatchLeases } from './dispatch-leases.js';
import { DispatchWork } from './dispatch-work.js';
import { DispatchMetrics } from './dispatch.metrics.js';
import { DispatcherHealth } from './dispatcher-health.js';
import { Dispatcher } from './dispatcher.service.js';
import { EventReader } from './event-reader.js';
import { Lanes } from './lanes.js';
import { LeftOvers } from './left-overs.js';
import { OpenedTargets } from './opened-targets.js';
import { Outcomes } from './outcomes.js';
import { Retries } from './retries.js';
import { RetryQueue } from './retry-queue.js';
import { Settlement } from './settlement.js';

@Module({
  imports: [HealthModule, MetricsModule, SecretsModule, SubscriptionAccessModule, TransportModule],
  providers: [
    Attempts,
    DeliveryStore,
    DispatchLeases,
    DispatchMetrics,
    DispatchWork,
    Dispatcher,
    DispatcherHealth,
    EventReader,
    Lanes,
    LeftOvers,
    OpenedTargets,
    Outcomes,
    Retries,
    RetryQueue,
    Settlement,
  ],
})
export class DispatchModule {}
