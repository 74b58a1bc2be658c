import { Module } from '@nestjs/common';
import { MetricsModule } from '../../metrics/index.js';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { resolverOf } from './name-servers.js';
import { SecurityConfigController } from './security-config.controller.js';
import { SecuritySettings } from './security-settings.js';
import { RESOLVE_HOST, TargetPolicy } from './target-policy.js';
import { TargetMetrics } from './target.metrics.js';

@Module({
  imports: [MetricsModule],
  controllers: [SecurityConfigController],
  providers: [
    SecuritySettings,
    TargetMetrics,
    TargetPolicy,
    {
      provide: RESOLVE_HOST,
      inject: [CONFIG],
      useFactory: ({ webhookDnsServers }: HoldfastConfig) => resolverOf(webhookDnsServers),
    },
  ],
  exports: [TargetPolicy],
})
export class TargetPolicyModule {}
