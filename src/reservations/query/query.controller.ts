import { Controller, Get, Param, Req, Res } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Access } from '../../auth/index.js';
import { sendJson, stringifyJson } from '../../http/index.js';
import { operationOf } from '../operation.js';
import { QueryService } from './query.service.js';

@ApiTags('Reservations')
@Controller('v1/reservations')
export class QueryController {
  constructor(private readonly service: QueryService) {}

  @Get(':reservation_id')
  @Access({ plane: 'runtime', tenant: 'reservations:list' })
  @ApiOperation({ operationId: 'getReservation', summary: 'Get one reservation' })
  async get(
    @Param('reservation_id') reservationId: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    sendJson(reply, 200, stringifyJson(await this.service.get(operationOf(request), reservationId)));
  }
}
