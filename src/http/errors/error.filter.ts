import {
  type ArgumentsHost,
  Catch,
  type ExceptionFilter,
  Inject,
  Injectable,
  NotFoundException,
  type OnModuleInit,
} from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { RedisService, StoreUnavailable } from '../../redis/index.js';
import { HealthContributors, LOGGER, type Logger, MetricsRegistry } from '../../telemetry/index.js';
import { HTTP_METRICS } from '../http.metrics.js';
import { RouteTable } from '../route-table.js';
import { answerTo, type ErrorAnswer, noRoute, sendError } from './error-answer.js';

/** Logs and counts unexpected errors of requests and of work beside them, and shows their number in the details of readiness. */
@Injectable()
export class UnexpectedErrors implements OnModuleInit {
  private readonly counts = this.metrics.of(HTTP_METRICS);
  private seen = 0;

  constructor(
    @Inject(MetricsRegistry) private readonly metrics: MetricsRegistry,
    @Inject(LOGGER) private readonly logger: Logger,
    @Inject(HealthContributors) private readonly health: HealthContributors,
  ) {}

  /** Always up, because the next request may succeed. */
  onModuleInit(): void {
    this.health.register({ name: 'errors', check: () => ({ up: true, details: { unexpected: this.seen } }) });
  }

  reportRequest(error: unknown, request: FastifyRequest): void {
    this.report(error, 'a request failed unexpectedly', {
      request_id: request.trace.requestId,
      trace_id: request.trace.traceId,
      method: request.method,
      route: request.routeOptions.url ?? 'unknown',
    });
  }

  /** Work that repeats must report a failure that lasts only once. */
  report(error: unknown, message: string, fields: Readonly<Record<string, unknown>> = {}): void {
    this.seen += 1;
    this.counts.unexpectedErrors.inc();
    this.logger.error({ err: error instanceof Error ? error : new Error(String(error)), ...fields }, message);
  }
}

/** Judges the errors of operations: what each is answered with, and who else must know of it. */
@Injectable()
export class ErrorAnswers {
  constructor(
    private readonly unexpected: UnexpectedErrors,
    private readonly redis: RedisService,
  ) {}

  answerTo(error: unknown, request: FastifyRequest): ErrorAnswer {
    const answer = answerTo(error, request);
    if (answer.unexpected === true) {
      this.unexpected.reportRequest(error, request);
    }
    if (error instanceof StoreUnavailable) {
      this.redis.refusals.couldNotServe(error);
    }
    return answer;
  }
}

/** Turns every error into a response, whether a controller, a guard, a hook or Fastify threw it. */
@Catch()
export class ErrorFilter implements ExceptionFilter {
  constructor(
    @Inject(ErrorAnswers) private readonly answers: ErrorAnswers,
    @Inject(RouteTable) private readonly routes: RouteTable,
    @Inject(RedisService) private readonly redis: RedisService,
  ) {}

  catch(error: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    const request = http.getRequest<FastifyRequest>();
    const reply = http.getResponse<FastifyReply>();
    const isUnknown = error instanceof NotFoundException && request.is404;
    const answer = isUnknown ? noRoute(request, this.routes) : this.answers.answerTo(error, request);
    // A response that was already sent cannot be replaced. The log has the error.
    if (!reply.sent) {
      if (answer.resetsInS !== undefined) {
        const resetsAtS = Math.ceil(this.redis.clock.nowMs() / 1000) + answer.resetsInS;
        reply.header('X-RateLimit-Reset', String(resetsAtS));
      }
      sendError(reply, answer, request.trace);
    }
  }
}
