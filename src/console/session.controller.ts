import { Controller, Get, Post, Req, Res } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { AuthAttempts, ConsoleSessions, sessionCookie, sessionTokenIn } from '../auth/index.js';
import { Operation, PublicAccess, refuseForged, SessionAccess } from '../http/index.js';
import { IdentityProvider } from './identity-provider.js';
import { LiveFeed } from './live-feed.js';
import { SessionAnswers } from './session-answers.js';

/** The session of the console's page, and its end. */
@ApiExcludeController()
@Controller('console/api')
export class SessionController {
  constructor(
    private readonly sessions: ConsoleSessions,
    private readonly access: SessionAccess,
    private readonly attempts: AuthAttempts,
    private readonly feed: LiveFeed,
    private readonly provider: IdentityProvider,
    private readonly answers: SessionAnswers,
  ) {}

  /** The current session, or null. Never 401, because the page asks before it knows. */
  @Get('session')
  @PublicAccess()
  async read(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    this.answers.send(reply, await this.access.find(request));
  }

  @Post('logout')
  @PublicAccess()
  @Operation('logOutOfConsole')
  async logOut(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    refuseForged(request, this.attempts);
    const session = await this.access.find(request);
    const token = sessionTokenIn(request);
    if (session !== undefined && token !== undefined) {
      await this.sessions.end(token);
      this.feed.endSession(session.id);
      request.caller = session.caller;
    }
    const isOfProvider = session?.caller.keyId?.startsWith('oidc:') === true;
    const elsewhere = isOfProvider
      ? await this.provider.logOutUrl(request.headers.origin as string, session.idToken)
      : undefined;
    reply.header('set-cookie', sessionCookie(request));
    this.answers.send(reply, undefined, elsewhere);
  }
}
