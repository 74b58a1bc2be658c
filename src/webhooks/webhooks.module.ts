import { Module } from '@nestjs/common';
import { DeliveriesModule } from './deliveries/index.js';
import { DispatchModule } from './dispatch/index.js';
import { ProbeModule } from './probe/index.js';
import { ReplayModule } from './replay/index.js';
import { SubscriptionsModule } from './subscriptions/index.js';
import { TargetPolicyModule } from './target-policy/index.js';

/** Telling endpoints that nobody knows what happened. */
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
