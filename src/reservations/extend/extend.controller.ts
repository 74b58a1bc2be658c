import { Body, Controller, Post, Req, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  Access,
  Answers,
  BodySchema,
  IdempotencyKeyHeader,
  ReservationId,
  sendJson,
} from '../../http/index.js';
import { compileValidator } from '../../wire/index.js';
import { operationOf, requireSameKey } from '../admission.js';
import { ExtendDto, ExtendService } from './extend.service.js';

const validate = compileValidator(ExtendDto);

@Controller('v1/reservations')
export class ExtendController {
  constructor(private readonly service: ExtendService) {}

  @Post(':reservation_id/extend')
  @Access({ plane: 'runtime', tenant: 'reservations:extend' })
  @ApiOperation({ operationId: 'extendReservation', summary: 'Extend the lease of a live reservation' })
  @IdempotencyKeyHeader()
  @Answers(200, 'ReservationExtendResponse')
  @BodySchema(ExtendDto, { idempotency_key: 'answer-4711-extend', extend_by_ms: 60_000 })
  async extend(
    @ReservationId() reservationId: string,
    @Req() request: FastifyRequest,
    @Body() body: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const dto = validate(body);
    requireSameKey(request, dto.idempotency_key);
    const { expiresAtMs, remainingTtlMs } = await this.service.extend(
      operationOf(request),
      reservationId,
      dto,
    );
    sendJson(
      reply,
      200,
      `{"status":"ACTIVE","expires_at_ms":${expiresAtMs},"remaining_ttl_ms":${remainingTtlMs}}`,
    );
  }
}
