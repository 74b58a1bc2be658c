import { Controller, Post, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { TenantCaller } from '../../auth/index.js';
import {
  Access,
  Answers,
  BodySchema,
  ChargeOnExpiryHeader,
  ExplainHeader,
  IdempotencyKeyHeader,
  onResponseEnd,
  Operation,
  WaitHeader,
} from '../../http/index.js';
import { invalidField } from '../../ledger/index.js';
import { callOf } from '../ledger-operation.js';
import { OperationAnswers } from '../operation-answers.js';
import { type ReserveCall, ReserveDto, ReserveService } from './reserve.service.js';
import type { Patience } from './waiter.js';

const LONGEST_WAIT_MS = 30_000;

/**
 * How long the client lets its reserve wait for funds, or undefined if it does not.
 * @throws Refusal INVALID_REQUEST if the header is not a whole number of ms from 0 to 30,000.
 */
function patienceOf(request: FastifyRequest, reply: FastifyReply): Patience | undefined {
  const value = request.headers['x-holdfast-wait-ms'];
  if (value === undefined) {
    return undefined;
  }
  const waitMs = typeof value === 'string' && /^\d{1,5}$/.test(value) ? Number(value) : Infinity;
  if (waitMs > LONGEST_WAIT_MS) {
    throw invalidField(
      'X-Holdfast-Wait-Ms',
      `X-Holdfast-Wait-Ms must be a whole number from 0 to ${LONGEST_WAIT_MS}`,
    );
  }
  if (waitMs === 0) {
    return undefined;
  }
  const gone = new AbortController();
  onResponseEnd(reply, () => {
    if (!reply.raw.writableFinished) {
      gone.abort();
    }
  });
  const readmit = async (): Promise<TenantCaller> => {
    await request.readmit?.(request);
    return request.caller as TenantCaller;
  };
  return { waitMs, readmit, gone: gone.signal, waitedMs: 0 };
}

@Controller('v1/reservations')
export class ReserveController {
  constructor(
    private readonly reserves: ReserveService,
    private readonly answers: OperationAnswers,
  ) {}

  @Post()
  @Access({ plane: 'runtime', tenant: 'reservations:create' })
  @Operation('createReservation', 'Reserve budget for a planned action')
  @IdempotencyKeyHeader()
  @ExplainHeader()
  @WaitHeader()
  @ChargeOnExpiryHeader()
  @Answers(200, 'ReservationCreateResponse')
  @BodySchema(ReserveDto, {
    idempotency_key: 'answer-4711',
    subject: { tenant: 'acme', app: 'support-chat' },
    action: { kind: 'llm.completion', name: 'gpt-4.1' },
    estimate: { unit: 'TOKENS', amount: 2_000 },
    ttl_ms: 600_000,
  })
  reserve(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const patience = patienceOf(request, reply);
    const call: ReserveCall = callOf(request);
    if (patience === undefined) {
      return this.answers.send(reply, this.reserves, call);
    }
    return this.answers
      .send<ReserveDto, ReserveCall>(reply, this.reserves, { ...call, patience })
      .finally(() => (request.waitedMs = patience.waitedMs));
  }
}
