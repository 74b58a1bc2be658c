import { Controller, Get, Post, Req, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  Access,
  Answers,
  BodySchema,
  LimitedQuery,
  OF_RESERVATION,
  originOf,
  QuerySchema,
  ReservationId,
  sendAnswer,
  tenantsOf,
} from '../../http/index.js';
import { compileQuery, compileValidator } from '../../wire/index.js';
import { QuarantineDecisionDto, QuarantineListQueryDto, QuarantineService } from './quarantine.service.js';

const validateList = compileQuery(QuarantineListQueryDto);
const validateDecision = compileValidator(QuarantineDecisionDto);

@Controller('ops/quarantine')
export class QuarantineController {
  constructor(private readonly service: QuarantineService) {}

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: 'filtered' })
  @LimitedQuery()
  @ApiOperation({
    operationId: 'listQuarantine',
    summary: 'List reservations that could not be settled, newest first',
  })
  @Answers(200, 'QuarantineList')
  @QuerySchema(QuarantineListQueryDto)
  async list(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const list = await this.service.list(validateList(request.query), tenantsOf(request));
    sendAnswer<'QuarantineList'>(reply, 200, list);
  }

  @Get(':reservation_id')
  @Access({ plane: 'admin', admin: true, confinement: OF_RESERVATION })
  @ApiOperation({
    operationId: 'inspectQuarantined',
    summary: 'What is wrong with a reservation in quarantine, and what a release would return',
  })
  @Answers(200, 'QuarantinedReservation')
  async inspect(@ReservationId() reservationId: string, @Res() reply: FastifyReply): Promise<void> {
    sendAnswer<'QuarantinedReservation'>(reply, 200, await this.service.inspect(reservationId));
  }

  @Post(':reservation_id/decide')
  @Access({ plane: 'admin', admin: true, confinement: OF_RESERVATION })
  @ApiOperation({
    operationId: 'decideQuarantined',
    summary: 'Have a reservation in quarantine judged again, or release it as it is',
  })
  @Answers(200, 'QuarantineDecision')
  @BodySchema(QuarantineDecisionDto, { action: 'retry', reason: 'The record was repaired' })
  async decide(
    @ReservationId() reservationId: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const decision = await this.service.decide(
      reservationId,
      validateDecision(request.body),
      originOf(request),
    );
    sendAnswer<'QuarantineDecision'>(reply, 200, decision);
  }
}
