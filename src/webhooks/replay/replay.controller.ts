import { Controller, Param, Post, Req, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import { Access, Answers, BodySchema, OF_SUBSCRIPTION, originOf, sendAnswer } from '../../http/index.js';
import { compileValidator } from '../../wire/index.js';
import { ReplayDto, ReplayService } from './replay.service.js';

const validate = compileValidator(ReplayDto);

@Controller('v1/admin/webhooks')
export class ReplayController {
  constructor(private readonly replays: ReplayService) {}

  @Post(':subscription_id/replay')
  @Access({ plane: 'admin', admin: true, confinement: OF_SUBSCRIPTION })
  @ApiOperation({ operationId: 'replayEvents', summary: 'Deliver the events of a time window again' })
  @BodySchema(ReplayDto, { event_types: ['reservation.expired'], max_events: 100 })
  @Answers(202, 'WebhookReplayResponse', 'Queued')
  async replay(
    @Param('subscription_id') id: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const result = await this.replays.replay(
      request.caller as Caller,
      id,
      validate(request.body),
      originOf(request),
    );
    sendAnswer<'WebhookReplayResponse'>(reply, 202, result);
  }
}
