import { Body, Controller, Get, Post, Req, Res } from '@nestjs/common';
import { ApiExcludeController, ApiOperation } from '@nestjs/swagger';
import { IsString } from 'class-validator';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  AuthAttempts,
  ConsoleSessions,
  OperatorKeys,
  RateLimits,
  sessionCookie,
  sessionTokenIn,
} from '../auth/index.js';
import { OperationAccess, PublicAccess, refuseForged, SessionAccess } from '../http/index.js';
import { compileValidator, MaxLength } from '../wire/index.js';
import { IdentityProvider } from './identity-provider.js';
import { LiveFeed } from './live-feed.js';
import { SessionAnswers } from './session-answers.js';

class LogInDto {
  /** The key of an operator. */
  @IsString()
  @MaxLength(1024)
  key!: string;
}

const validate = compileValidator(LogInDto);

/** Log-in by key and log-out of the console's page. */
@ApiExcludeController()
@Controller('console/api')
export class SessionController {
  constructor(
    private readonly operators: OperatorKeys,
    private readonly sessions: ConsoleSessions,
    private readonly access: SessionAccess,
    private readonly roles: OperationAccess,
    private readonly limits: RateLimits,
    private readonly attempts: AuthAttempts,
    private readonly feed: LiveFeed,
    private readonly provider: IdentityProvider,
    private readonly answers: SessionAnswers,
  ) {}

  @Post('login')
  @PublicAccess()
  @ApiOperation({ operationId: 'logInToConsole' })
  async logIn(
    @Req() request: FastifyRequest,
    @Body() body: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    refuseForged(request, this.attempts);
    const owner = await this.operators.find(validate(body).key);
    if (typeof owner === 'string') {
      const failure = this.attempts.unauthorized(owner, 'this is not the key of an operator');
      throw this.limits.answerTo(failure, 'admin_key', request.ip, reply);
    }
    this.roles.requireRole(owner, 'viewer');
    const { token, session } = await this.sessions.create(owner);
    request.caller = session.caller;
    reply.header('set-cookie', sessionCookie(request, token));
    this.answers.send(reply, session);
  }

  /** The current session, or null. Never 401, because the page asks before it knows. */
  @Get('session')
  @PublicAccess()
  async read(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    this.answers.send(reply, await this.access.find(request));
  }

  @Post('logout')
  @PublicAccess()
  @ApiOperation({ operationId: 'logOutOfConsole' })
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
