import {
  type ArgumentsHost,
  Catch,
  type ExceptionFilter,
  Inject,
  Injectable,
  type OnModuleInit,
} from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  HealthContributors,
  type LabelledCounter,
  LOGGER,
  type Logger,
  MetricsRegistry,
} from '../../telemetry/index.js';
import { RouteTable } from '../route-table.js';
import { answerTo, sendError } from './error-answer.js';

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

/** The one place where something thrown becomes an answer, whether a controller, a guard, a hook or Fastify threw it. */
@Catch()
export class ErrorFilter implements ExceptionFilter {
  constructor(
    @Inject(UnexpectedErrors) private readonly unexpected: UnexpectedErrors,
    @Inject(RouteTable) private readonly routes: RouteTable,
  ) {}

  catch(error: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    const request = http.getRequest<FastifyRequest>();
    const reply = http.getResponse<FastifyReply>();
    const answer = answerTo(error, request, this.routes);
    if (answer.unexpected === true) {
      this.unexpected.report(error, request);
    }
    // An answer that is under way cannot be replaced; the log has what happened.
    if (!reply.sent) {
      sendError(reply, answer, request.trace);
    }
  }
}
