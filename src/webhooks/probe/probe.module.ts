import { Module } from '@nestjs/common';
import { MetricsModule } from '../../metrics/index.js';
import { SecretsModule } from '../secrets/index.js';
import { SubscriptionAccessModule } from '../subscriptions/index.js';
import { TransportModule } from '../transport/index.js';
import { ProbeController } from './probe.controller.js';
import { ProbeService } from './probe.service.js';
import { Prober } from './prober.js';

@Module({
  imports: [MetricsModule, SecretsModule, SubscriptionAccessModule, TransportModule],
  controllers: [ProbeController],
  providers: [ProbeService, Prober],
})
export class ProbeModule {}
