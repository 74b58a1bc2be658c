import { Global, Module } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import {
  LOGGER,
  type Logger,
  MetricsRegistry,
  Tracing,
  TracingModule,
  MetricsModule,
} from '../telemetry/index.js';
import { Changes } from './changes.js';
import { RedisService } from './redis.service.js';
import { ScriptRegistry } from './scripts.js';
import { SkippedRecords } from './skipped-records.js';

/** Nest awaits the factory, so dependents get a service that is connected and checked. */
@Global()
@Module({
  imports: [MetricsModule, TracingModule],
  providers: [
    {
      provide: RedisService,
      inject: [CONFIG, LOGGER, MetricsRegistry, Tracing],
      useFactory: (config: HoldfastConfig, logger: Logger, { registry }: MetricsRegistry, tracing: Tracing) =>
        RedisService.start(config, logger, registry, tracing),
    },
    {
      provide: Changes,
      inject: [MetricsRegistry],
      useFactory: ({ registry }: MetricsRegistry) => new Changes(registry),
    },
    {
      provide: SkippedRecords,
      inject: [MetricsRegistry, LOGGER],
      useFactory: ({ registry }: MetricsRegistry, logger: Logger) =>
        new SkippedRecords(registry, (members, message) => logger.warn(members, message)),
    },
    { provide: ScriptRegistry, inject: [RedisService], useFactory: ({ scripts }: RedisService) => scripts },
  ],
  exports: [Changes, RedisService, ScriptRegistry, SkippedRecords],
})
export class RedisModule {}
