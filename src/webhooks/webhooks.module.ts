import { Module } from '@nestjs/common';
import { DeliveriesModule } from './deliveries/deliveries.controller.js';
import { DispatchModule } from './dispatch/dispatch.module.js';
import { ProbeModule } from './probe/probe.controller.js';
import { ReplayModule } from './replay/replay.controller.js';
import { SubscriptionsModule } from './subscriptions/subscriptions.module.js';
import { TargetPolicyModule } from './target-policy/security-config.controller.js';

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
