import { Controller, Post, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  Access,
  Answers,
  BodySchema,
  ExplainHeader,
  IdempotencyKeyHeader,
  Operation,
  ReservationId,
} from '../../http/index.js';
import { callOf } from '../ledger-operation.js';
import { OperationAnswers } from '../operation-answers.js';
import { CommitDto, CommitService } from './commit.service.js';

@Controller('v1/reservations')
export class CommitController {
  constructor(
    private readonly commits: CommitService,
    private readonly answers: OperationAnswers,
  ) {}

  @Post(':reservation_id/commit')
  @Access({ plane: 'runtime', tenant: 'reservations:commit' })
  @Operation('commitReservation', 'Commit the actual cost of a reservation')
  @IdempotencyKeyHeader()
  @ExplainHeader()
  @Answers(200, 'CommitResponse')
  @BodySchema(CommitDto, {
    idempotency_key: 'answer-4711-commit',
    actual: { unit: 'TOKENS', amount: 1_430 },
    metrics: { tokens_input: 1_100, tokens_output: 330 },
  })
  commit(
    @ReservationId() reservationId: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    return this.answers.send(reply, this.commits, { ...callOf(request), reservationId });
  }
}
