import { Body, Controller, Post, Req, Res } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Access } from '../../auth/index.js';
import { Answers, BodySchema, compileValidator, IdempotencyKeyHeader, sendJson } from '../../http/index.js';
import { requireSameKey } from '../fingerprint.js';
import { operationOf } from '../operation.js';
import { ReserveDto } from './reserve.dto.js';
import { reserveResponse } from './reserve.response.js';
import { ReserveService } from './reserve.service.js';

const validate = compileValidator(ReserveDto);

@ApiTags('Reservations')
@Controller('v1/reservations')
export class ReserveController {
  constructor(private readonly service: ReserveService) {}

  @Post()
  @Access({ plane: 'runtime', tenant: 'reservations:create' })
  @ApiOperation({ operationId: 'createReservation', summary: 'Reserve budget for a planned action' })
  @IdempotencyKeyHeader()
  @Answers(200, 'ReservationCreateResponse')
  @BodySchema(ReserveDto)
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
