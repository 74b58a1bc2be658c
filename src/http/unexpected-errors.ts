import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import { HealthContributors } from '../health/index.js';
import { LOGGER, type Logger } from '../logging/index.js';
import { MetricsRegistry, type LabelledCounter } from '../metrics/index.js';

/** Failures that nobody foresaw: each is one log line, one count, and visible in the readiness details. */
@Injectable()
export class UnexpectedErrors implements OnModuleInit {
  private readonly counter: LabelledCounter;
  private seen = 0;

  constructor(
    @Inject(MetricsRegistry) metrics: MetricsRegistry,
    @Inject(LOGGER) private readonly logger: Logger,
    @Inject(HealthContributors) private readonly health: HealthContributors,
  ) {
    this.counter = metrics.counter({
      name: 'holdfast_unexpected_errors_total',
      help: 'Requests that failed for a reason nobody foresaw; each has one error line in the log.',
    });
  }

  /** Shown, but no reason to take the process out of service: the next request may well succeed. */
  onModuleInit(): void {
    this.health.register({ name: 'errors', check: () => ({ up: true, details: { unexpected: this.seen } }) });
  }

  report(error: unknown, request: FastifyRequest): void {
    this.seen += 1;
    this.counter.inc();
    this.logger.error(
      {
        err: error instanceof Error ? error : new Error(String(error)),
        request_id: request.trace.requestId,
        trace_id: request.trace.traceId,
        method: request.method,
        route: request.routeOptions.url ?? 'unknown',
      },
      'a request failed unexpectedly',
    );
  }
}
