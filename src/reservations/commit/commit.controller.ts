import { Body, Controller, Post, Req, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  Access,
  Answers,
  BodySchema,
  ExplainHeader,
  IdempotencyKeyHeader,
  ReservationId,
} from '../../http/index.js';
import { balancesJson } from '../../ledger/index.js';
import { compileValidator } from '../../wire/index.js';
import { operationOf, requireSameKey } from '../admission.js';
import { AttestedAnswers } from '../attested-answers.js';
import { FundsForecast } from '../funds-forecast.js';
import { CommitDto, CommitService, type Committed } from './commit.service.js';

const validate = compileValidator(CommitDto);

/** CommitResponse of the protocol. `released` is present only if something was returned. */
function commitResponse({ charged, released, unit, balances }: Committed): string {
  const returned = released === '0' ? '' : `"released":{"unit":"${unit}","amount":${released}},`;
  return `{"status":"COMMITTED","charged":{"unit":"${unit}","amount":${charged}},${returned}"balances":${balancesJson(balances, unit)}}`;
}

@Controller('v1/reservations')
export class CommitController {
  constructor(
    private readonly service: CommitService,
    private readonly answers: AttestedAnswers,
    private readonly forecast: FundsForecast,
  ) {}

  @Post(':reservation_id/commit')
  @Access({ plane: 'runtime', tenant: 'reservations:commit' })
  @ApiOperation({ operationId: 'commitReservation', summary: 'Commit the actual cost of a reservation' })
  @IdempotencyKeyHeader()
  @ExplainHeader()
  @Answers(200, 'CommitResponse')
  @BodySchema(CommitDto, {
    idempotency_key: 'answer-4711-commit',
    actual: { unit: 'TOKENS', amount: 1_430 },
    metrics: { tokens_input: 1_100, tokens_output: 330 },
  })
  async commit(
    @ReservationId() reservationId: string,
    @Req() request: FastifyRequest,
    @Body() body: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const dto = validate(body);
    requireSameKey(request, dto.idempotency_key);
    const operation = operationOf(request);
    const attested = { artifact: 'commit', operation, body: dto, reservationId } as const;
    await this.forecast.explaining(request, { amount: dto.actual, reservationId }, () =>
      this.answers.send(reply, attested, async () => {
        const outcome = await this.service.commit(operation, reservationId, dto);
        const { stamp, answer } = outcome;
        return { stamp, answer, response: commitResponse(outcome), reservationId };
      }),
    );
  }
}
