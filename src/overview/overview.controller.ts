import { Controller, Get, Req } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import { Access, type Answer, Answers, Operation, SkipsDamaged } from '../http/index.js';
import { OverviewService } from './overview.service.js';

@Controller('v1/admin/overview')
export class OverviewController {
  constructor(private readonly service: OverviewService) {}

  @Get()
  @Access({ plane: 'admin', admin: true })
  @SkipsDamaged()
  @Operation('getAdminOverview', 'Get the figures of the whole deployment, and what needs attention')
  @Answers(200, 'AdminOverviewResponse')
  async read(@Req() request: FastifyRequest): Promise<Answer<'AdminOverviewResponse'>> {
    const { body, skipped } = await this.service.read();
    request.skipped = skipped;
    return body;
  }
}
