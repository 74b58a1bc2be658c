import { Body, Controller, Param, Post, Req, Res } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Access, type Caller } from '../../auth/index.js';
import { originOf } from '../../governance/index.js';
import { Answers, BodySchema, compileValidator, sendJson, stringifyJson } from '../../http/index.js';
import { ReplayDto } from './replay.dto.js';
import { ReplayService } from './replay.service.js';

const validate = compileValidator(ReplayDto);

@ApiTags('Webhooks')
@Controller('v1/admin/webhooks')
export class ReplayController {
  constructor(private readonly replays: ReplayService) {}

  @Post(':subscription_id/replay')
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({ operationId: 'replayEvents', summary: 'Deliver events of a window of time once more' })
  @BodySchema(ReplayDto)
  @Answers(202, 'WebhookReplayResponse', 'Queued')
  async replay(
    @Param('subscription_id') id: string,
    @Req() request: FastifyRequest,
    @Body() body: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const result = await this.replays.replay(
      request.caller as Caller,
      id,
      validate(body),
      originOf(request, 'admin'),
    );
    sendJson(reply, 202, stringifyJson(result));
  }
}
