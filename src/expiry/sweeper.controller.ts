import { Controller, Get, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { Access, Answers, LimitedQuery, sendJson } from '../http/index.js';
import { stringifyJson } from '../wire/index.js';
import { SweeperState } from './sweeper-state.js';

@Controller('ops/sweeper')
export class SweeperController {
  constructor(private readonly state: SweeperState) {}

  @Get()
  @Access({ plane: 'admin', admin: true })
  @LimitedQuery()
  @ApiOperation({
    operationId: 'getSweeper',
    summary: 'Who sweeps what, how late, and how the last ticks went',
  })
  @Answers(200, 'SweeperState')
  async get(@Res() reply: FastifyReply): Promise<void> {
    sendJson(reply, 200, stringifyJson(await this.state.read()));
  }
}
