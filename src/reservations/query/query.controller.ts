import { Controller, Get, Module, Query, Req, Res } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import { Access, Answers, LimitedQuery, QuerySchema, ReservationId, sendJson } from '../../http/index.js';
import { compileQuery, stringifyJson } from '../../wire/index.js';
import { operationOf } from '../admission.js';
import { ReservationStoreModule } from '../reservation-store.module.js';
import { ListReservationsQueryDto } from './list-reservations.dto.js';
import { ListService } from './list.service.js';
import { QueryService } from './query.service.js';
import { ReservationIndex } from './reservation-index.js';

const validateList = compileQuery(ListReservationsQueryDto);

@ApiTags('Reservations')
@Controller('v1/reservations')
export class QueryController {
  constructor(
    private readonly lists: ListService,
    private readonly service: QueryService,
  ) {}

  @Get()
  @Access({ plane: 'runtime', tenant: 'reservations:list', admin: true })
  @LimitedQuery()
  @ApiOperation({ operationId: 'listReservations', summary: 'List the reservations of a tenant' })
  @QuerySchema(ListReservationsQueryDto)
  @Answers(200, 'ReservationListResponse')
  async list(
    @Req() request: FastifyRequest,
    @Query() query: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    sendJson(reply, 200, await this.lists.list(operationOf<Caller>(request), validateList(query)));
  }

  @Get(':reservation_id')
  @Access({ plane: 'runtime', tenant: 'reservations:list', admin: true })
  @ApiOperation({ operationId: 'getReservation', summary: 'Get one reservation' })
  @Answers(200, 'ReservationDetail')
  async get(
    @ReservationId() reservationId: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    sendJson(reply, 200, stringifyJson(await this.service.get(operationOf<Caller>(request), reservationId)));
  }
}

@Module({
  imports: [ReservationStoreModule],
  controllers: [QueryController],
  providers: [ListService, QueryService, ReservationIndex],
})
export class QueryModule {}
