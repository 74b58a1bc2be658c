import { Controller, Post, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { RateLimits } from '../../auth/index.js';
import { Access, Answers, BodySchema, ExplainHeader, Operation, sendJson } from '../../http/index.js';
import { bodyOf } from '../../wire/index.js';
import type { AttestedCall } from '../attested-answers.js';
import { asksToExplain, type Wanted } from '../funds-forecast.js';
import { type Call, callOf, refuseHeadersOfOne } from '../ledger-operation.js';
import { OperationAnswers } from '../operation-answers.js';
import {
  type GrantedSet,
  type MemberDto,
  MemberRefused,
  ReservationSetDto,
  ReservationSetService,
} from './reservation-sets.service.js';

@Controller('v1/reservation-sets')
export class ReservationSetController {
  constructor(
    private readonly service: ReservationSetService,
    private readonly answers: OperationAnswers,
    private readonly rates: RateLimits,
  ) {}

  @Post()
  @Access({ plane: 'runtime', tenant: 'reservations:create' })
  @Operation(
    'createReservationSet',
    'Reserve several amounts together, or none',
    'Two to eight reserves of one tenant, in any units and at any of its scopes. All are granted, or the first one that is refused is ' +
      'answered as it would be alone, with its place in `details.operation`. Afterwards each reservation is settled by itself.',
  )
  @ExplainHeader()
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
  async reserve(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    refuseHeadersOfOne(request);
    const dto = bodyOf(request, ReservationSetDto);
    const call = callOf(request);
    const explains = asksToExplain(call);
    this.rates.perKey?.admitRest(call.caller.keyId, reply, dto.reservations.length);
    let granted: GrantedSet;
    try {
      granted = await this.service.reserve(call, dto);
    } catch (error) {
      if (!(error instanceof MemberRefused)) {
        throw error;
      }
      const wanted = explains ? wantedOf(call, dto, error.place) : undefined;
      await this.answers.complete(error.refusal, askedOf(call, dto, error.place), wanted);
      throw error.refusal;
    }
    const responses = await Promise.all(
      granted.outcomes.map((outcome, place) => this.answers.textOf(outcome, askedOf(call, dto, place))),
    );
    sendJson(reply, 200, `{"reservation_set_id":"${granted.setId}","reservations":[${responses.join(',')}]}`);
  }
}

/** A member, as a request of its own would be attested. */
function askedOf(call: Call, { reservations }: ReservationSetDto, place: number): AttestedCall {
  const { headers: _, ...body } = reservations[place] as MemberDto;
  return { artifact: 'reserve', call, body };
}

/** A retry needs funds for the whole set. */
function wantedOf({ caller }: Call, { reservations }: ReservationSetDto, place: number): Wanted {
  const { estimate, subject } = reservations[place] as MemberDto;
  const beside = reservations.filter((one, index) => index !== place && one.estimate.unit === estimate.unit);
  return { caller, amount: estimate, subject, isHeld: true, beside };
}
