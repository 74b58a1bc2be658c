import { Body, Controller, Post, Req, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { RateLimits } from '../../auth/index.js';
import { Access, Answers, BodySchema, sendJson } from '../../http/index.js';
import { compileValidator } from '../../wire/index.js';
import { AttestedAnswers } from '../attested-answers.js';
import { callOf, refuseHeadersOfOne } from '../ledger-operation.js';
import {
  type GrantedSet,
  MemberRefused,
  ReservationSetDto,
  ReservationSetService,
} from './reservation-sets.service.js';

const validate = compileValidator(ReservationSetDto);

@Controller('v1/reservation-sets')
export class ReservationSetController {
  constructor(
    private readonly service: ReservationSetService,
    private readonly evidence: AttestedAnswers,
    private readonly rates: RateLimits,
  ) {}

  @Post()
  @Access({ plane: 'runtime', tenant: 'reservations:create' })
  @ApiOperation({
    operationId: 'createReservationSet',
    summary: 'Reserve several amounts together, or none',
    description:
      'Two to eight reserves of one tenant, in any units and at any of its scopes. All are granted, or the first one that is refused is ' +
      'answered as it would be alone, with its place in `details.operation`. Afterwards each reservation is settled by itself.',
  })
  @Answers(200, 'ReservationSetResponse')
  @BodySchema(ReservationSetDto, {
    reservations: [
      {
        idempotency_key: 'answer-4711-planner',
        subject: { tenant: 'acme', app: 'support-chat', agent: 'planner' },
        action: { kind: 'llm.completion', name: 'gpt-4.1' },
        estimate: { unit: 'TOKENS', amount: 2_000 },
      },
      {
        idempotency_key: 'answer-4711-writer',
        subject: { tenant: 'acme', app: 'support-chat', agent: 'writer' },
        action: { kind: 'llm.completion', name: 'gpt-4.1' },
        estimate: { unit: 'TOKENS', amount: 500 },
      },
    ],
  })
  async reserve(
    @Req() request: FastifyRequest,
    @Body() body: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    refuseHeadersOfOne(request);
    const dto = validate(body);
    const call = callOf(request, body);
    this.rates.perKey?.admitRest(call.caller.keyId, reply, dto.reservations.length);
    let granted: GrantedSet;
    try {
      granted = await this.service.reserve(call, dto);
    } catch (error) {
      if (!(error instanceof MemberRefused)) {
        throw error;
      }
      await this.evidence.attestDenial(error.refusal, { artifact: 'reserve', call, body: error.request });
      throw error.refusal;
    }
    const responses = await Promise.all(
      granted.outcomes.map((outcome, place) =>
        this.evidence.responseWithReference(outcome, {
          artifact: 'reserve',
          call,
          body: dto.reservations[place] as object,
        }),
      ),
    );
    sendJson(reply, 200, `{"reservation_set_id":"${granted.setId}","reservations":[${responses.join(',')}]}`);
  }
}
