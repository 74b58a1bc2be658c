import { Body, Controller, Post, Req, Res } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Access } from '../auth/index.js';
import { Answers, BodySchema, compileValidator, IdempotencyKeyHeader, sendJson } from '../http/index.js';
import { balancesJson } from '../ledger/index.js';
import type { Reply } from '../redis/index.js';
import { operationOf, requireSameKey } from '../reservations/index.js';
import { DirectDebitDto } from './direct-debit.dto.js';
import { DirectDebitService } from './direct-debit.service.js';

const validate = compileValidator(DirectDebitDto);

/** EventCreateResponse of the protocol: `charged` is there only where the charge was capped below the actual amount. */
function eventResponse(reply: Reply, { actual: { unit, amount } }: DirectDebitDto): string {
  const [, , eventId, charged] = reply as [string, string, string, string];
  const capped = charged === amount.toString() ? '' : `"charged":{"unit":"${unit}","amount":${charged}},`;
  return `{"status":"APPLIED","event_id":"${eventId}",${capped}"balances":${balancesJson(reply, 6, unit)}}`;
}

@ApiTags('Events')
@Controller('v1/events')
export class DirectDebitController {
  constructor(private readonly service: DirectDebitService) {}

  /**
   * The permission is that of a commit: both charge what has been used, and a client whose hold expired before its commit
   * must be able to record the same usage here with the same key.
   */
  @Post()
  @Access({ plane: 'runtime', tenant: 'reservations:commit' })
  @ApiOperation({ operationId: 'createEvent', summary: 'Charge what was used without a reservation' })
  @IdempotencyKeyHeader()
  @Answers(201, 'EventCreateResponse')
  @BodySchema(DirectDebitDto)
  async create(
    @Req() request: FastifyRequest,
    @Body() body: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const dto = validate(body);
    requireSameKey(request.headers['x-idempotency-key'], dto.idempotency_key);
    sendJson(reply, 201, eventResponse(await this.service.debit(operationOf(request), dto), dto));
  }
}
