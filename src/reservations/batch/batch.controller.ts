import { Controller, Post, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { TenantCaller } from '../../auth/index.js';
import {
  Access,
  Answers,
  BodySchema,
  ErrorAnswers,
  errorBody,
  ExplainHeader,
  Operation,
  OperationAccess,
  requireReservationId,
  sendJson,
} from '../../http/index.js';
import { MetricsRegistry, Tracing } from '../../telemetry/index.js';
import { asksToExplain } from '../funds-forecast.js';
import { refuseHeadersOfOne } from '../ledger-operation.js';
import { OperationAnswers } from '../operation-answers.js';
import { headersOf } from '../operation-headers.js';
import { RESERVATION_METRICS } from '../reservations.metrics.js';
import { BatchDto, type BatchedOperationDto, operationsOf } from './batch.dto.js';
import { BatchedOperations } from './batched-operations.js';

/**
 * Operations of a batch at the same time: as many as one run of a grouped script takes. Fifty at once would make the neighbours in their
 * partition wait for all of them.
 */
const AT_ONCE = 16;

interface Result {
  readonly status: number;
  /** JSON text, as the request of its own would be answered. */
  readonly body: string;
  readonly retryAfterS?: number | undefined;
}

@Controller('v1/batch')
export class BatchController {
  private readonly counts = this.metrics.of(RESERVATION_METRICS);

  constructor(
    private readonly operations: BatchedOperations,
    private readonly answers: OperationAnswers,
    private readonly access: OperationAccess,
    private readonly errors: ErrorAnswers,
    private readonly tracing: Tracing,
    private readonly metrics: MetricsRegistry,
  ) {}

  @Post()
  @Access({ plane: 'runtime', tenant: 'any' })
  @Operation('sendBatch', 'Send up to 50 operations in one request')
  @ExplainHeader()
  @Answers(200, 'BatchResponse')
  @BodySchema(BatchDto, {
    operations: [
      {
        op: 'reserve',
        body: {
          idempotency_key: 'answer-4714',
          subject: { tenant: 'acme', app: 'support-chat' },
          action: { kind: 'llm.completion', name: 'gpt-4.1' },
          estimate: { unit: 'TOKENS', amount: 2_000 },
        },
      },
      {
        op: 'event',
        body: {
          idempotency_key: 'answer-4715-debit',
          subject: { tenant: 'acme', app: 'support-chat' },
          action: { kind: 'llm.completion', name: 'gpt-4.1' },
          actual: { unit: 'TOKENS', amount: 300 },
        },
      },
    ],
  })
  async send(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    refuseHeadersOfOne(request);
    // A header that cannot be understood refuses the batch, and not each of its operations.
    asksToExplain(request);
    const operations = operationsOf(request.body);
    const results: Result[] = [];
    for (let first = 0; first < operations.length; first += AT_ONCE) {
      // The access guard has admitted the first ones. The others have waited, and the key may have been revoked.
      const admitted = first === 0 ? undefined : request.readmit?.(request);
      const slice = operations.slice(first, first + AT_ONCE);
      const made = slice.map((operation, index) =>
        this.traced(operation, { request, reply, admitted, isFirst: first + index === 0 }),
      );
      results.push(...(await Promise.all(made)));
    }
    const longestS = Math.max(0, ...results.map(({ retryAfterS = 0 }) => retryAfterS));
    if (longestS > 0) {
      reply.header('Retry-After', String(longestS));
    }
    sendJson(reply, 200, `{"results":[${results.map(textOf).join(',')}]}`);
  }

  /** Never rejects. */
  private traced(batched: BatchedOperationDto, turn: Turn): Promise<Result> {
    const span = this.tracing.child(`batch ${batched.op}`);
    return this.tracing.during(span, async () => {
      const result = await this.resultOf(batched, turn);
      const status = String(result.status);
      this.counts.batched.inc({ op: batched.op, status });
      span?.set({ 'http.response.status_code': result.status });
      if (result.status >= 500) {
        span?.fail(status);
      }
      return result;
    });
  }

  private async resultOf(batched: BatchedOperationDto, turn: Turn): Promise<Result> {
    const { request, reply } = turn;
    const { operation, access } = this.operations.named(batched.op);
    try {
      await turn.admitted;
      const caller = request.caller as TenantCaller;
      // The request of the batch has been counted as its first operation.
      if (!turn.isFirst) {
        this.access.count(caller, access, reply);
      }
      this.access.requirePermission(caller, access);
      const { body, reservation_id: id, event_id: eventId } = batched;
      const call = {
        caller,
        trace: request.trace,
        headers: headersOf(request.headers, batched.headers),
        body,
      };
      const named = {
        ...call,
        ...(id === undefined ? {} : { reservationId: requireReservationId(id) }),
        ...(eventId === undefined ? {} : { eventId }),
      };
      return { status: operation.status, body: await this.answers.answer(operation, named) };
    } catch (error) {
      const answer = this.errors.answerTo(error, request);
      const retryAfter = answer.headers?.['Retry-After'];
      return {
        status: answer.status,
        body: errorBody(answer, request.trace),
        retryAfterS: retryAfter === undefined ? undefined : Number(retryAfter),
      };
    }
  }
}

/** What an operation knows of its batch. */
interface Turn {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** Judges the caller again, after the operations before this one. */
  readonly admitted: Promise<void> | undefined;
  readonly isFirst: boolean;
}

function textOf({ status, body, retryAfterS }: Result): string {
  const retry = retryAfterS === undefined ? '' : `"retry_after_s":${retryAfterS},`;
  return `{"status":${status},${retry}"body":${body}}`;
}
