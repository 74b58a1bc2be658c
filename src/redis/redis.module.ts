import { Global, Module } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { LOGGER, type Logger, MetricsRegistry, Tracing } from '../telemetry/index.js';
import { Changes } from './changes.js';
import { Records } from './records.js';
import { RedisService } from './redis.service.js';
import { ScriptRegistry } from './scripts.js';
import { SkippedRecords } from './skipped-records.js';

/** Nest awaits the factory, so dependents get a service that is connected and checked. */
@Global()
@Module({
  providers: [
    {
      provide: RedisService,
      inject: [CONFIG, LOGGER, MetricsRegistry, Tracing],
      useFactory: (config: HoldfastConfig, logger: Logger, metrics: MetricsRegistry, tracing: Tracing) =>
        RedisService.start(config, logger, metrics, tracing),
    },
    {
      provide: Changes,
      inject: [MetricsRegistry],
      useFactory: (metrics: MetricsRegistry) => new Changes(metrics),
    },
    {
      provide: SkippedRecords,
      inject: [MetricsRegistry, LOGGER],
      useFactory: (metrics: MetricsRegistry, logger: Logger) => new SkippedRecords(metrics, logger),
    },
    { provide: ScriptRegistry, inject: [RedisService], useFactory: ({ scripts }: RedisService) => scripts },
    Records,
  ],
  exports: [Changes, Records, RedisService, ScriptRegistry, SkippedRecords],
})
export class RedisModule {}
