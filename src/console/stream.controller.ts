import { Controller, Get, Req, Res } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type AdminCaller, OperatorKeys, SESSION_LIFETIME_MS } from '../auth/index.js';
import { Access, onResponseEnd, SessionAccess } from '../http/index.js';
import { LiveFeed } from './live-feed.js';

@ApiExcludeController()
@Controller('console/api/stream')
export class StreamController {
  constructor(
    private readonly feed: LiveFeed,
    private readonly access: SessionAccess,
    private readonly operators: OperatorKeys,
  ) {}

  /** Accepts the key of an operator as well. Those of the environment never end. */
  @Get()
  @Access({ plane: 'admin', admin: true })
  async follow(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const session = await this.access.find(request);
    const stream = this.feed.follow({
      id: session?.id ?? '',
      expiresInMs: session?.expiresInMs ?? SESSION_LIFETIME_MS,
      isLive: async () =>
        isOfAll(
          session === undefined
            ? await this.currentOf(request.caller as AdminCaller)
            : (await this.access.find(request))?.caller,
        ),
    });
    onResponseEnd(reply, () => stream.destroy());
    reply
      .header('content-type', 'text/event-stream')
      .header('cache-control', 'no-store')
      // Proxies such as nginx would hold events back.
      .header('x-accel-buffering', 'no');
    await reply.send(stream);
  }

  private async currentOf(caller: AdminCaller): Promise<AdminCaller | undefined> {
    const { secretHash } = caller;
    const found = secretHash === undefined ? caller : await this.operators.findNamed(secretHash);
    return typeof found === 'string' ? undefined : found;
  }
}

/** The figures are of the whole deployment, so a stream ends when its operator is confined to tenants. */
function isOfAll(caller: AdminCaller | undefined): boolean {
  return caller !== undefined && caller.tenants === undefined;
}
