import { Controller, Get, Req, Res } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { SESSION_LIFETIME_MS } from '../auth/index.js';
import { Access, onResponseEnd, SessionAccess } from '../http/index.js';
import { LiveFeed } from './live-feed.js';

@ApiExcludeController()
@Controller('console/api/stream')
export class StreamController {
  constructor(
    private readonly feed: LiveFeed,
    private readonly access: SessionAccess,
  ) {}

  /** Accepts the admin key as well, which never ends. */
  @Get()
  @Access({ plane: 'admin', admin: true })
  async follow(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const session = await this.access.find(request);
    const stream = this.feed.follow({
      id: session?.id ?? '',
      expiresInMs: session?.expiresInMs ?? SESSION_LIFETIME_MS,
      isLive: async () => session === undefined || (await this.access.find(request)) !== undefined,
    });
    onResponseEnd(reply, () => stream.destroy());
    reply
      .header('content-type', 'text/event-stream')
      .header('cache-control', 'no-store')
      // Proxies such as nginx would hold events back.
      .header('x-accel-buffering', 'no');
    await reply.send(stream);
  }
}
