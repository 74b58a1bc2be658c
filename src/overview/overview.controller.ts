import { Controller, Get, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { Access, Answers, sendJson } from '../http/index.js';
import { stringifyJson } from '../wire/index.js';
import { OverviewService } from './overview.service.js';

@Controller('v1/admin/overview')
export class OverviewController {
  constructor(private readonly service: OverviewService) {}

  @Get()
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({
    operationId: 'getAdminOverview',
    summary: 'Get the figures of the whole deployment, and what needs attention',
  })
  @Answers(200, 'AdminOverviewResponse')
  async read(@Res() reply: FastifyReply): Promise<void> {
    sendJson(reply, 200, stringifyJson(await this.service.read()));
  }
}
