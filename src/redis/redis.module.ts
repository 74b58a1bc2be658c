import { Global, Module } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { LOGGER, type Logger, MetricsModule, MetricsRegistry } from '../telemetry/index.js';
import { RedisService } from './redis.service.js';
import { ScriptRegistry } from './scripts.js';

/** Nest awaits the factory, so dependents get a service that is connected and checked. */
@Global()
@Module({
  imports: [MetricsModule],
  providers: [
    {
      provide: RedisService,
      inject: [CONFIG, LOGGER, MetricsRegistry],
      useFactory: (config: HoldfastConfig, logger: Logger, { registry }: MetricsRegistry) =>
        RedisService.start(config, logger, registry),
    },
    { provide: ScriptRegistry, inject: [RedisService], useFactory: ({ scripts }: RedisService) => scripts },
  ],
  exports: [RedisService, ScriptRegistry],
})
export class RedisModule {}
