import { Controller, Post, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  Access,
  Answers,
  BodySchema,
  ExplainHeader,
  IdempotencyKeyHeader,
  Operation,
} from '../../http/index.js';
import { callOf } from '../ledger-operation.js';
import { OperationAnswers } from '../operation-answers.js';
import { DirectDebitDto, DirectDebitService } from './direct-debit.service.js';

@Controller('v1/events')
export class DirectDebitController {
  constructor(
    private readonly debits: DirectDebitService,
    private readonly answers: OperationAnswers,
  ) {}

  /**
   * Needs the same permission as a commit. Both charge usage, and a client whose hold expired before its commit must be able to
   * record that usage here with the same key.
   */
  @Post()
  @Access({ plane: 'runtime', tenant: 'reservations:commit' })
  @Operation('createEvent', 'Charge usage that had no reservation')
  @IdempotencyKeyHeader()
  @ExplainHeader()
  @Answers(201, 'EventCreateResponse')
  @BodySchema(DirectDebitDto, {
    idempotency_key: 'answer-4713-debit',
    subject: { tenant: 'acme', app: 'support-chat' },
    action: { kind: 'llm.completion', name: 'gpt-4.1' },
    actual: { unit: 'TOKENS', amount: 800 },
  })
  create(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    return this.answers.send(reply, this.debits, callOf(request));
  }
}
