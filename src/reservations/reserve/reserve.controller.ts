import { Body, Controller, Post, Req, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Access, Answers, BodySchema, IdempotencyKeyHeader, sendJson } from '../../http/index.js';
import { balancesJson } from '../../ledger/index.js';
import { compileValidator } from '../../wire/index.js';
import { capsJson, operationOf, requireSameKey } from '../admission.js';
import { type ReserveOutcome, ReserveService } from './reserve.service.js';
import { ReserveDto } from './reserve.dto.js';

/**
 * ReservationCreateResponse of the protocol as JSON text. Its strings are ids, scopes and codes, which need no escaping; caps and
 * balances are JSON already. Fields that do not apply are absent, never null.
 */
export function reserveResponse({ reply, scopes }: ReserveOutcome, { estimate }: ReserveDto): string {
  const affected = `"affected_scopes":["${scopes.join('","')}"],"scope_path":"${scopes.at(-1) as string}"`;
  const reserved = `"reserved":{"unit":"${estimate.unit}","amount":${estimate.amount}}`;
  const balances = (first: number): string => `"balances":${balancesJson(reply, first, estimate.unit)}`;
  const caps = (index: number): string => `"caps":${capsJson(reply[index] as string)}`;
  switch (reply[0]) {
    case 'DENY':
      return `{"decision":"DENY",${affected},"reason_code":"${reply[2] as string}"}`;
    case 'ALLOW_DRY_RUN':
      return `{"decision":"ALLOW",${affected},${reserved},${balances(2)}}`;
    case 'DRY_RUN_WITH_CAPS':
      return `{"decision":"ALLOW_WITH_CAPS",${affected},${reserved},${caps(2)},${balances(3)}}`;
    default:
  }
  const held =
    `"reservation_id":"${reply[2] as string}",${affected},${reserved},` +
    `"expires_at_ms":${reply[3] as string},"remaining_ttl_ms":${reply[4] as string}`;
  return reply[0] === 'ALLOW_WITH_CAPS'
    ? `{"decision":"ALLOW_WITH_CAPS",${held},${caps(6)},${balances(7)}}`
    : `{"decision":"ALLOW",${held},${balances(6)}}`;
}

const validate = compileValidator(ReserveDto);

@Controller('v1/reservations')
export class ReserveController {
  constructor(private readonly service: ReserveService) {}

  @Post()
  @Access({ plane: 'runtime', tenant: 'reservations:create' })
  @ApiOperation({ operationId: 'createReservation', summary: 'Reserve budget for a planned action' })
  @IdempotencyKeyHeader()
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
    requireSameKey(request.headers['x-idempotency-key'], dto.idempotency_key);
    const outcome = await this.service.reserve(operationOf(request), dto);
    sendJson(reply, 200, reserveResponse(outcome, dto));
  }
}
