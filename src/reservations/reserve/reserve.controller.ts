import { Body, Controller, Post, Req, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  Access,
  Answers,
  BodySchema,
  ExplainHeader,
  IdempotencyKeyHeader,
  onResponseEnd,
  WaitHeader,
} from '../../http/index.js';
import { balancesJson, Refusal } from '../../ledger/index.js';
import { compileValidator } from '../../wire/index.js';
import { admittedScopes, denyDetailJson, operationOf, requireSameKey } from '../admission.js';
import { AttestedAnswers } from '../attested-answers.js';
import { FundsForecast } from '../funds-forecast.js';
import { ReserveDto, type ReserveOutcome, ReserveService } from './reserve.service.js';
import type { Patience } from './waiter.js';

const LONGEST_WAIT_MS = 30_000;

/**
 * How long the client lets its reserve wait for funds, or undefined if it does not.
 * @throws Refusal INVALID_REQUEST if the header is not a whole number of ms from 0 to 30,000.
 */
function patienceOf(
  request: FastifyRequest,
  reply: FastifyReply,
  { subject }: ReserveDto,
): Patience | undefined {
  const value = request.headers['x-holdfast-wait-ms'];
  if (value === undefined) {
    return undefined;
  }
  const waitMs = typeof value === 'string' && /^\d{1,5}$/.test(value) ? Number(value) : Infinity;
  if (waitMs > LONGEST_WAIT_MS) {
    throw new Refusal(
      'INVALID_REQUEST',
      `X-Holdfast-Wait-Ms must be a whole number from 0 to ${LONGEST_WAIT_MS}`,
      {
        field: 'X-Holdfast-Wait-Ms',
      },
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
  const readmit = async (): Promise<void> => {
    await request.readmit?.(request);
    admittedScopes(operationOf(request).caller, subject);
  };
  return { waitMs, readmit, gone: gone.signal, waitedMs: 0 };
}

/**
 * ReservationCreateResponse of the protocol as JSON text, without `remaining_ttl_ms`, which changes from one answer to the next. Its strings are ids, scopes and codes, which need no escaping; caps and
 * balances are JSON already. Fields that do not apply are absent, never null.
 */
export function reserveResponse({ reply, scopes }: ReserveOutcome, { estimate }: ReserveDto): string {
  const affected = `"affected_scopes":["${scopes.join('","')}"],"scope_path":"${scopes.at(-1) as string}"`;
  const reserved = `"reserved":{"unit":"${estimate.unit}","amount":${estimate.amount}}`;
  if (reply.status === 'DENY') {
    return `{"decision":"DENY",${affected},"reason_code":"${reply.reason}"}`;
  }
  const balances = `"balances":${balancesJson(reply.balances, estimate.unit)}`;
  const caps = 'caps' in reply ? `"caps":${reply.caps},` : '';
  const decision = `"decision":"${caps === '' ? 'ALLOW' : 'ALLOW_WITH_CAPS'}"`;
  if (!('reservationId' in reply)) {
    return `{${decision},${affected},${reserved},${caps}${balances}}`;
  }
  return (
    `{${decision},"reservation_id":"${reply.reservationId}",${affected},${reserved},` +
    `"expires_at_ms":${reply.expiresAtMs},${caps}${balances}}`
  );
}

const validate = compileValidator(ReserveDto);

@Controller('v1/reservations')
export class ReserveController {
  constructor(
    private readonly service: ReserveService,
    private readonly answers: AttestedAnswers,
    private readonly forecast: FundsForecast,
  ) {}

  @Post()
  @Access({ plane: 'runtime', tenant: 'reservations:create' })
  @ApiOperation({ operationId: 'createReservation', summary: 'Reserve budget for a planned action' })
  @IdempotencyKeyHeader()
  @ExplainHeader()
  @WaitHeader()
  @Answers(200, 'ReservationCreateResponse')
  @BodySchema(ReserveDto, {
    idempotency_key: 'answer-4711',
    subject: { tenant: 'acme', app: 'support-chat' },
    action: { kind: 'llm.completion', name: 'gpt-4.1' },
    estimate: { unit: 'TOKENS', amount: 2_000 },
    ttl_ms: 600_000,
  })
  async reserve(
    @Req() request: FastifyRequest,
    @Body() body: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const dto = validate(body);
    requireSameKey(request, dto.idempotency_key);
    const operation = operationOf(request);
    const patience = patienceOf(request, reply, dto);
    await this.forecast.explaining(
      request,
      { amount: dto.estimate, subject: dto.subject, isHeld: true },
      () =>
        this.answers.send(reply, { artifact: 'reserve', operation, body: dto }, async () => {
          const reserving = this.service.reserve(operation, dto, patience);
          const outcome = await (patience === undefined
            ? reserving
            : reserving.finally(() => (request.waitedMs = patience.waitedMs)));
          const { stamp, answer } = outcome.reply;
          const held = 'reservationId' in outcome.reply ? outcome.reply : undefined;
          // An envelope of a reserve without dry_run has a reservation, so what is only observed has no form there.
          const isAttestable = held !== undefined || dto.dry_run === true;
          return {
            stamp: isAttestable ? stamp : undefined,
            answer,
            response: reserveResponse(outcome, dto),
            unattested: held
              ? `"remaining_ttl_ms":${held.remainingTtlMs}`
              : denyDetailJson(outcome.reply, dto),
            reservationId: held?.reservationId,
          };
        }),
    );
  }
}
