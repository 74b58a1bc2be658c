import { Controller, Post, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import {
  Access,
  Answers,
  auditTraceOf,
  BodySchema,
  IdempotencyKeyHeader,
  OF_RESERVATION,
  Operation,
  ReservationId,
} from '../../http/index.js';
import { callOf } from '../ledger-operation.js';
import { OperationAnswers } from '../operation-answers.js';
import { ReleaseDto, ReleaseService } from './release.service.js';

@Controller('v1/reservations')
export class ReleaseController {
  constructor(
    private readonly releases: ReleaseService,
    private readonly answers: OperationAnswers,
  ) {}

  @Post(':reservation_id/release')
  @Access({ plane: 'runtime', tenant: 'reservations:release', admin: true, confinement: OF_RESERVATION })
  @Operation('releaseReservation', 'Release an unused reservation')
  @IdempotencyKeyHeader()
  @Answers(200, 'ReleaseResponse')
  @BodySchema(ReleaseDto, { idempotency_key: 'answer-4711-release', reason: 'The user closed the chat' })
  release(
    @ReservationId() reservationId: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const traceOfRow = request.caller?.kind === 'admin' ? auditTraceOf(request) : undefined;
    return this.answers.send(reply, this.releases, {
      ...callOf<Caller>(request),
      reservationId,
      traceOfRow,
    });
  }
}
