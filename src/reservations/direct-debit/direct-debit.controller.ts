import { Body, Controller, Post, Req, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  Access,
  Answers,
  BodySchema,
  ExplainHeader,
  IdempotencyKeyHeader,
  sendJson,
} from '../../http/index.js';
import { balancesJson } from '../../ledger/index.js';
import { compileValidator } from '../../wire/index.js';
import { operationOf, requireSameKey } from '../admission.js';
import { FundsForecast } from '../funds-forecast.js';
import { type Applied, DirectDebitDto, DirectDebitService } from './direct-debit.service.js';

const validate = compileValidator(DirectDebitDto);

/** EventCreateResponse of the protocol. `charged` is present only if the charge was capped below the actual amount. */
function eventResponse(
  { eventId, charged, balances }: Applied,
  { actual: { unit, amount } }: DirectDebitDto,
): string {
  const capped = charged === amount.toString() ? '' : `"charged":{"unit":"${unit}","amount":${charged}},`;
  return `{"status":"APPLIED","event_id":"${eventId}",${capped}"balances":${balancesJson(balances, unit)}}`;
}

@Controller('v1/events')
export class DirectDebitController {
  constructor(
    private readonly service: DirectDebitService,
    private readonly forecast: FundsForecast,
  ) {}

  /**
   * Needs the same permission as a commit. Both charge usage, and a client whose hold expired before its commit must be able to
   * record that usage here with the same key.
   */
  @Post()
  @Access({ plane: 'runtime', tenant: 'reservations:commit' })
  @ApiOperation({ operationId: 'createEvent', summary: 'Charge usage that had no reservation' })
  @IdempotencyKeyHeader()
  @ExplainHeader()
  @Answers(201, 'EventCreateResponse')
  @BodySchema(DirectDebitDto, {
    idempotency_key: 'answer-4713-debit',
    subject: { tenant: 'acme', app: 'support-chat' },
    action: { kind: 'llm.completion', name: 'gpt-4.1' },
    actual: { unit: 'TOKENS', amount: 800 },
  })
  async create(
    @Req() request: FastifyRequest,
    @Body() body: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const dto = validate(body);
    requireSameKey(request, dto.idempotency_key);
    const wanted = { amount: dto.actual, subject: dto.subject };
    const applied = await this.forecast.explaining(request, wanted, () =>
      this.service.debit(operationOf(request), dto),
    );
    sendJson(reply, 201, eventResponse(applied, dto));
  }
}
