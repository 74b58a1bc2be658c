import { Body, Controller, Post, Req, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import {
  Access,
  Answers,
  auditTraceOf,
  BodySchema,
  IdempotencyKeyHeader,
  ReservationId,
} from '../../http/index.js';
import { balancesJson } from '../../ledger/index.js';
import { compileValidator } from '../../wire/index.js';
import { operationOf, requireSameKey } from '../admission.js';
import { AttestedAnswers } from '../attested-answers.js';
import { type Released, ReleaseDto, ReleaseService } from './release.service.js';

const validate = compileValidator(ReleaseDto);

/** ReleaseResponse of the protocol. */
function releaseResponse({ released, unit, balances }: Released): string {
  return (
    `{"status":"RELEASED","released":{"unit":"${unit}","amount":${released}},` +
    `"balances":${balancesJson(balances, unit)}}`
  );
}

@Controller('v1/reservations')
export class ReleaseController {
  constructor(
    private readonly service: ReleaseService,
    private readonly answers: AttestedAnswers,
  ) {}

  @Post(':reservation_id/release')
  @Access({ plane: 'runtime', tenant: 'reservations:release', admin: true })
  @ApiOperation({ operationId: 'releaseReservation', summary: 'Release an unused reservation' })
  @IdempotencyKeyHeader()
  @Answers(200, 'ReleaseResponse')
  @BodySchema(ReleaseDto, { idempotency_key: 'answer-4711-release', reason: 'The user closed the chat' })
  async release(
    @ReservationId() reservationId: string,
    @Req() request: FastifyRequest,
    @Body() body: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const dto = validate(body);
    requireSameKey(request, dto.idempotency_key);
    const traceOfRow = request.caller?.kind === 'admin' ? auditTraceOf(request) : undefined;
    const operation = operationOf<Caller>(request);
    await this.answers.send(reply, { artifact: 'release', operation, body: dto, reservationId }, async () => {
      const outcome = await this.service.release(operation, reservationId, dto, traceOfRow);
      const { stamp, answer } = outcome;
      return { stamp, answer, response: releaseResponse(outcome), reservationId };
    });
  }
}
