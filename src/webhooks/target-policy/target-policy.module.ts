import { Module } from '@nestjs/common';
import { MetricsModule } from '../../metrics/index.js';
import { SecurityConfigController } from './security-config.controller.js';
import { SecuritySettings } from './security-settings.js';
import { RESOLVE_HOST, resolveBySystem, TargetPolicy } from './target-policy.js';
import { TargetMetrics } from './target.metrics.js';

@Module({
  imports: [MetricsModule],
  controllers: [SecurityConfigController],
  providers: [SecuritySettings, TargetMetrics, TargetPolicy, { provide: RESOLVE_HOST, useValue: resolveBySystem }],
  exports: [TargetPolicy],
})
export class TargetPolicyModule {}
