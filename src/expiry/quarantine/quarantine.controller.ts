import { Controller, Get, Post, Req } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import {
  Access,
  type Answer,
  Answers,
  BodySchema,
  LimitedQuery,
  OF_RESERVATION,
  Operation,
  originOf,
  QuerySchema,
  ReservationId,
  tenantsOf,
} from '../../http/index.js';
import { bodyOf, queryOf } from '../../wire/index.js';
import { QuarantineDecisionDto, QuarantineListQueryDto, QuarantineService } from './quarantine.service.js';

@Controller('ops/quarantine')
export class QuarantineController {
  constructor(private readonly service: QuarantineService) {}

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: 'filtered' })
  @LimitedQuery()
  @Operation('listQuarantine', 'List reservations that could not be settled, newest first')
  @Answers(200, 'QuarantineList')
  @QuerySchema(QuarantineListQueryDto)
  list(@Req() request: FastifyRequest): Promise<Answer<'QuarantineList'>> {
    return this.service.list(queryOf(request, QuarantineListQueryDto), tenantsOf(request));
  }

  @Get(':reservation_id')
  @Access({ plane: 'admin', admin: true, confinement: OF_RESERVATION })
  @Operation(
    'inspectQuarantined',
    'What is wrong with a reservation in quarantine, and what a release would return',
  )
  @Answers(200, 'QuarantinedReservation')
  inspect(@ReservationId() reservationId: string): Promise<Answer<'QuarantinedReservation'>> {
    return this.service.inspect(reservationId);
  }

  @Post(':reservation_id/decide')
  @Access({ plane: 'admin', admin: true, confinement: OF_RESERVATION })
  @Operation('decideQuarantined', 'Have a reservation in quarantine judged again, or release it as it is')
  @Answers(200, 'QuarantineDecision')
  @BodySchema(QuarantineDecisionDto, { action: 'retry', reason: 'The record was repaired' })
  decide(
    @ReservationId() reservationId: string,
    @Req() request: FastifyRequest,
  ): Promise<Answer<'QuarantineDecision'>> {
    return this.service.decide(reservationId, bodyOf(request, QuarantineDecisionDto), originOf(request));
  }
}
