import { Controller, Param, Post, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import {
  Access,
  Answers,
  auditTraceOf,
  BodySchema,
  IdempotencyKeyHeader,
  OF_DEBIT,
  OF_RESERVATION,
  Operation,
  ReservationId,
} from '../../http/index.js';
import { callOf } from '../ledger-operation.js';
import { OperationAnswers } from '../operation-answers.js';
import { RefundDto, RefundService } from './refund.service.js';

@Controller('v1')
export class RefundController {
  constructor(
    private readonly refunds: RefundService,
    private readonly answers: OperationAnswers,
  ) {}

  @Post('reservations/:reservation_id/refunds')
  @Access({ plane: 'runtime', tenant: 'refunds:create', admin: true, confinement: OF_RESERVATION })
  @Operation('refundReservation', 'Take back what a reservation was charged')
  @IdempotencyKeyHeader()
  @Answers(200, 'RefundResponse')
  @BodySchema(RefundDto, {
    idempotency_key: 'answer-4711-refund',
    amount: { unit: 'TOKENS', amount: 430 },
    reason: 'The provider billed less',
  })
  ofReservation(
    @ReservationId() reservationId: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    return this.refund(request, reply, { reservationId });
  }

  @Post('events/:event_id/refunds')
  @Access({ plane: 'runtime', tenant: 'refunds:create', admin: true, confinement: OF_DEBIT })
  @Operation('refundEvent', 'Take back what a direct debit was charged')
  @IdempotencyKeyHeader()
  @Answers(200, 'RefundResponse')
  @BodySchema(RefundDto, {
    idempotency_key: 'answer-4713-refund',
    amount: { unit: 'TOKENS', amount: 800 },
    reason: 'It was charged twice',
  })
  ofDebit(
    @Param('event_id') eventId: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    return this.refund(request, reply, { eventId });
  }

  private refund(
    request: FastifyRequest,
    reply: FastifyReply,
    charge: { readonly reservationId?: string; readonly eventId?: string },
  ): Promise<void> {
    const traceOfRow = request.caller?.kind === 'admin' ? auditTraceOf(request) : undefined;
    return this.answers.send(reply, this.refunds, {
      ...callOf<Caller>(request),
      ...charge,
      traceOfRow,
    });
  }
}
