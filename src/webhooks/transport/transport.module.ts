import { Module } from '@nestjs/common';
import { TargetPolicy, TargetPolicyModule } from '../target-policy/index.js';
import { WebhookTransport } from './webhook-transport.js';

@Module({
  imports: [TargetPolicyModule],
  providers: [
    {
      provide: WebhookTransport,
      inject: [TargetPolicy],
      useFactory: (policy: TargetPolicy) => new WebhookTransport(policy),
    },
  ],
  exports: [WebhookTransport],
})
export class TransportModule {}
