import { Controller, Post, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Access, Answers, BodySchema, IdempotencyKeyHeader, Operation } from '../../http/index.js';
import { callOf } from '../ledger-operation.js';
import { OperationAnswers } from '../operation-answers.js';
import { DecideDto, DecideService } from './decide.service.js';

@Controller('v1/decide')
export class DecideController {
  constructor(
    private readonly decisions: DecideService,
    private readonly answers: OperationAnswers,
  ) {}

  @Post()
  @Access({ plane: 'runtime', tenant: 'reservations:create' })
  @Operation('decide', 'Ask whether a reservation would be granted now')
  @IdempotencyKeyHeader()
  @Answers(200, 'DecisionResponse')
  @BodySchema(DecideDto, {
    idempotency_key: 'answer-4712-decide',
    subject: { tenant: 'acme', app: 'support-chat' },
    action: { kind: 'llm.completion', name: 'gpt-4.1' },
    estimate: { unit: 'TOKENS', amount: 2_000 },
  })
  decide(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    return this.answers.send(reply, this.decisions, callOf(request));
  }
}
