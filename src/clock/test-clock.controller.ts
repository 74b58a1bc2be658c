import { Controller, Get, Post, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Access, type Answer, Answers, BodySchema, Operation, originOf, sendAnswer } from '../http/index.js';
import { DAY_MS } from '../ledger/index.js';
import { bodyOf } from '../wire/index.js';
import { TestClockAdvanceDto, TestClockService } from './test-clock.service.js';

@Controller('ops/test-clock')
export class TestClockController {
  constructor(private readonly service: TestClockService) {}

  @Get()
  @Access({ plane: 'admin', admin: true })
  @Operation('getTestClock', 'Get the time of the deployment')
  @Answers(200, 'TestClock')
  get(): Promise<Answer<'TestClock'>> {
    return this.service.read();
  }

  @Post('advance')
  @Access({ plane: 'admin', admin: true, role: 'admin' })
  @Operation(
    'advanceTestClock',
    'Let the time of the deployment pass, with everything that is due until then',
  )
  @Answers(200, 'TestClock')
  @BodySchema(TestClockAdvanceDto, { by_ms: DAY_MS })
  async advance(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const clock = await this.service.advance(bodyOf(request, TestClockAdvanceDto), originOf(request));
    if (clock.status === 'ADVANCING') {
      reply.header('Retry-After', '1');
    }
    sendAnswer<'TestClock'>(reply, 200, clock);
  }
}
