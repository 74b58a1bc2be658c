import { Controller, Get, Param, Req } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import type { TenantCaller } from '../auth/index.js';
import {
  Access,
  type Answer,
  Answers,
  LimitedQuery,
  Operation,
  QuerySchema,
  tenantsOf,
} from '../http/index.js';
import { queryOf } from '../wire/index.js';
import { OF_EVENT } from './event-owner.js';
import { EventQueryDto, EventsService, TenantEventQueryDto } from './events.service.js';
import { eventJson } from './event.js';

@Controller('v1')
export class EventsController {
  constructor(private readonly service: EventsService) {}

  @Get('admin/events')
  @Access({ plane: 'admin', admin: true, confinement: { filteredAt: 'query.tenant_id' } })
  @LimitedQuery()
  @Operation('listEvents', 'Query the event stream')
  @Answers(200, 'EventListResponse')
  @QuerySchema(EventQueryDto, { tenant_id: 'acme' })
  async list(@Req() request: FastifyRequest): Promise<Answer<'EventListResponse'>> {
    const { rows, ...rest } = await this.service.list(queryOf(request, EventQueryDto), tenantsOf(request));
    return { events: rows, ...rest };
  }

  @Get('admin/events/:event_id')
  @Access({ plane: 'admin', admin: true, confinement: OF_EVENT })
  @Operation('getEvent', 'Get a single event by ID')
  @Answers(200, 'Event')
  async get(@Param('event_id') eventId: string): Promise<string> {
    return eventJson(await this.service.get(eventId));
  }

  @Get('events')
  @Access({ plane: 'admin', tenant: 'events:read' })
  @LimitedQuery()
  @Operation('listTenantEvents', 'Query events for the authenticated tenant')
  @Answers(200, 'EventListResponse')
  @QuerySchema(TenantEventQueryDto)
  async listOwn(@Req() request: FastifyRequest): Promise<Answer<'EventListResponse'>> {
    const { rows, ...rest } = await this.service.listOfTenant(
      request.caller as TenantCaller,
      queryOf(request, TenantEventQueryDto),
    );
    return { events: rows, ...rest };
  }
}
