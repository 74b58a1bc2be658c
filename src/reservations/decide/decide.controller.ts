import { Body, Controller, Post, Req, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Access, Answers, BodySchema, IdempotencyKeyHeader } from '../../http/index.js';
import { compileValidator } from '../../wire/index.js';
import { denyDetailJson, operationOf, requireSameKey } from '../admission.js';
import { AttestedAnswers } from '../attested-answers.js';
import { DecideDto, DecideService, type Decision } from './decide.service.js';

const validate = compileValidator(DecideDto);

/** DecisionResponse of the protocol as JSON text. Scopes and reasons need no escaping, and caps are JSON already. */
function decisionResponse({ reply, scopes }: Decision): string {
  const reason = reply.status === 'DENY' ? `,"reason_code":"${reply.reason}"` : '';
  const caps = reply.status === 'ALLOW_WITH_CAPS' ? `,"caps":${reply.caps}` : '';
  return `{"decision":"${reply.status}"${caps}${reason},"affected_scopes":["${scopes.join('","')}"]}`;
}

@Controller('v1/decide')
export class DecideController {
  constructor(
    private readonly service: DecideService,
    private readonly answers: AttestedAnswers,
  ) {}

  @Post()
  @Access({ plane: 'runtime', tenant: 'reservations:create' })
  @ApiOperation({ operationId: 'decide', summary: 'Ask whether a reservation would be granted now' })
  @IdempotencyKeyHeader()
  @Answers(200, 'DecisionResponse')
  @BodySchema(DecideDto, {
    idempotency_key: 'answer-4712-decide',
    subject: { tenant: 'acme', app: 'support-chat' },
    action: { kind: 'llm.completion', name: 'gpt-4.1' },
    estimate: { unit: 'TOKENS', amount: 2_000 },
  })
  async decide(
    @Req() request: FastifyRequest,
    @Body() body: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const dto = validate(body);
    requireSameKey(request, dto.idempotency_key);
    const operation = operationOf(request);
    await this.answers.send(reply, { artifact: 'decide', operation, body: dto }, async () => {
      const decision = await this.service.decide(operation, dto);
      const { stamp, answer } = decision.reply;
      return {
        stamp,
        answer,
        response: decisionResponse(decision),
        unattested: denyDetailJson(decision.reply, dto),
      };
    });
  }
}
