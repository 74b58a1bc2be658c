import { type DynamicModule, Global, Module } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { HealthContributors, ShutdownState } from './health.js';
import { type Logger, LOGGER } from './logger.js';
import { MetricsRegistry, withProcessMetrics } from './metrics-registry.js';
import { RequestMetrics } from './request-metrics.js';
import { startTracing } from './tracing/start-tracing.js';
import { Tracing } from './tracing/tracing.js';

/**
 * What a process tells of itself: its log, metrics, traces and health. Global, because everything that runs logs and counts. Fastify logs
 * with the same logger.
 */
@Global()
@Module({})
export class TelemetryModule {
  static forRoot(logger: Logger): DynamicModule {
    return {
      module: TelemetryModule,
      providers: [
        { provide: LOGGER, useValue: logger },
        {
          provide: MetricsRegistry,
          inject: [CONFIG],
          useFactory: (config: HoldfastConfig) => withProcessMetrics(new MetricsRegistry(config)),
        },
        { provide: Tracing, inject: [CONFIG, LOGGER, MetricsRegistry], useFactory: startTracing },
        HealthContributors,
        RequestMetrics,
        ShutdownState,
      ],
      exports: [HealthContributors, LOGGER, MetricsRegistry, RequestMetrics, ShutdownState, Tracing],
    };
  }
}
