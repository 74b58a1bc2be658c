import { Controller, Post, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  Access,
  Answers,
  BodySchema,
  IdempotencyKeyHeader,
  Operation,
  ReservationId,
} from '../../http/index.js';
import { callOf } from '../ledger-operation.js';
import { OperationAnswers } from '../operation-answers.js';
import { ExtendDto, ExtendService } from './extend.service.js';

@Controller('v1/reservations')
export class ExtendController {
  constructor(
    private readonly extensions: ExtendService,
    private readonly answers: OperationAnswers,
  ) {}

  @Post(':reservation_id/extend')
  @Access({ plane: 'runtime', tenant: 'reservations:extend' })
  @Operation('extendReservation', 'Extend the lease of a live reservation')
  @IdempotencyKeyHeader()
  @Answers(200, 'ReservationExtendResponse')
  @BodySchema(ExtendDto, { idempotency_key: 'answer-4711-extend', extend_by_ms: 60_000 })
  extend(
    @ReservationId() reservationId: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    return this.answers.send(reply, this.extensions, { ...callOf(request), reservationId });
  }
}
