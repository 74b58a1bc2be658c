import { Controller, Get, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import {
  Access,
  type Answer,
  Answers,
  LimitedQuery,
  OF_RESERVATION,
  Operation,
  QuerySchema,
  ReservationId,
  sendJson,
  tenantsOf,
} from '../../http/index.js';
import { queryOf } from '../../wire/index.js';
import { operationOf } from '../admission.js';
import { BudgetHoldsQueryDto, BudgetHoldsService } from './budget-holds.service.js';
import { GetService } from './get.service.js';
import { ListReservationsQueryDto } from './list-query.js';
import { ListService } from './list.service.js';
import { LiveHoldsQueryDto, LiveHoldsService } from './live-holds.service.js';

@Controller('v1/reservations')
export class QueryController {
  constructor(
    private readonly lists: ListService,
    private readonly reservations: GetService,
  ) {}

  @Get()
  @Access({
    plane: 'runtime',
    tenant: 'reservations:list',
    admin: true,
    confinement: { tenantAt: 'query.tenant' },
  })
  @LimitedQuery()
  @Operation('listReservations', 'List the reservations of a tenant')
  @QuerySchema(ListReservationsQueryDto, { tenant: 'acme' })
  @Answers(200, 'ReservationListResponse')
  async list(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const { text, examined } = await this.lists.list(
      operationOf<Caller>(request),
      queryOf(request, ListReservationsQueryDto),
    );
    if (examined !== undefined) {
      reply.header('x-holdfast-examined', examined);
    }
    sendJson(reply, 200, text);
  }

  @Get(':reservation_id')
  @Access({ plane: 'runtime', tenant: 'reservations:list', admin: true, confinement: OF_RESERVATION })
  @Operation('getReservation', 'Get one reservation')
  @Answers(200, 'ReservationDetail')
  get(
    @ReservationId() reservationId: string,
    @Req() request: FastifyRequest,
  ): Promise<Answer<'ReservationDetail'>> {
    return this.reservations.get(operationOf<Caller>(request), reservationId);
  }
}

@Controller('ops/budgets/holds')
export class BudgetHoldsController {
  constructor(private readonly holds: BudgetHoldsService) {}

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: { scopeAt: 'query.scope' } })
  @LimitedQuery()
  @Operation('listBudgetHolds', 'List the live holds of a budget by when their amounts are back')
  @Answers(200, 'BudgetHoldList')
  @QuerySchema(BudgetHoldsQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  list(@Req() request: FastifyRequest): Promise<Answer<'BudgetHoldList'>> {
    return this.holds.list(queryOf(request, BudgetHoldsQueryDto), tenantsOf(request));
  }
}

@Controller('ops/holds')
export class LiveHoldsController {
  constructor(private readonly holds: LiveHoldsService) {}

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: { filteredAt: 'query.tenant_id' } })
  @LimitedQuery()
  @Operation('listLiveHolds', 'List the live holds of all tenants by when they expire')
  @Answers(200, 'LiveHoldList')
  @QuerySchema(LiveHoldsQueryDto, { overdue: true })
  list(@Req() request: FastifyRequest): Promise<Answer<'LiveHoldList'>> {
    return this.holds.list(queryOf(request, LiveHoldsQueryDto), tenantsOf(request));
  }
}
