import { Controller, Param, Post, Req } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import {
  Access,
  type Answer,
  Answers,
  BodySchema,
  OF_SUBSCRIPTION,
  Operation,
  originOf,
} from '../../http/index.js';
import { bodyOf } from '../../wire/index.js';
import { ReplayDto, ReplayService } from './replay.service.js';

@Controller('v1/admin/webhooks')
export class ReplayController {
  constructor(private readonly replays: ReplayService) {}

  @Post(':subscription_id/replay')
  @Access({ plane: 'admin', admin: true, confinement: OF_SUBSCRIPTION })
  @Operation('replayEvents', 'Deliver the events of a time window again')
  @BodySchema(ReplayDto, { event_types: ['reservation.expired'], max_events: 100 })
  @Answers(202, 'WebhookReplayResponse', 'Queued')
  replay(
    @Param('subscription_id') id: string,
    @Req() request: FastifyRequest,
  ): Promise<Answer<'WebhookReplayResponse'>> {
    return this.replays.replay(request.caller as Caller, id, bodyOf(request, ReplayDto), originOf(request));
  }
}
