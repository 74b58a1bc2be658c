import { Body, Controller, Get, Post, Req, Res } from '@nestjs/common';
import { ApiExcludeController, ApiOperation } from '@nestjs/swagger';
import { IsString } from 'class-validator';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  AuthAttempts,
  type ConsoleSession,
  ConsoleSessions,
  OperatorKeys,
  RateLimits,
  sessionCookie,
  sessionTokenIn,
  sourceOf,
} from '../auth/index.js';
import { OperationAccess, PublicAccess, refuseForged, sendJson, SessionAccess } from '../http/index.js';
import { Refusal } from '../ledger/index.js';
import { RedisService } from '../redis/index.js';
import { compileValidator, MaxLength, stringifyJson } from '../wire/index.js';
import { LiveFeed } from './live-feed.js';
import type { SessionAnswer } from './page-answers.js';

class LogInDto {
  /** The key of an operator. */
  @IsString()
  @MaxLength(1024)
  key!: string;
}

const validate = compileValidator(LogInDto);

/** Log-in and log-out of the console's page. */
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
    private readonly redis: RedisService,
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
      this.attempts.refused(owner);
      throw (
        this.limits.authFailures?.exceeded(`admin_key ${sourceOf(request.ip)}`, reply) ??
        new Refusal('UNAUTHORIZED', 'this is not the key of the operators')
      );
    }
    this.roles.requireRole(owner, 'viewer');
    const { token, session } = await this.sessions.create(owner);
    request.caller = session.caller;
    reply.header('set-cookie', sessionCookie(isSecure(request), token));
    this.send(reply, session);
  }

  /** The current session, or null. Never 401, because the page asks before it knows. */
  @Get('session')
  @PublicAccess()
  async read(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    this.send(reply, await this.access.find(request));
  }

  @Post('logout')
  @PublicAccess()
  @ApiOperation({ operationId: 'logOutOfConsole' })
  async logOut(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    refuseForged(request, this.attempts);
    const session = await this.access.find(request);
    const token = sessionTokenIn(request.headers.cookie);
    if (session !== undefined && token !== undefined) {
      await this.sessions.end(token);
      this.feed.endSession(session.id);
      request.caller = session.caller;
    }
    reply.header('set-cookie', sessionCookie(isSecure(request)));
    this.send(reply, undefined);
  }

  private send(reply: FastifyReply, session: ConsoleSession | undefined): void {
    reply.header('cache-control', 'no-store');
    sendJson(
      reply,
      200,
      stringifyJson({
        session:
          session === undefined
            ? null
            : {
                id: session.id,
                role: session.caller.role,
                name: session.caller.keyId ?? session.id,
                expires_in_ms: session.expiresInMs,
              },
        now_ms: this.redis.clock.ledgerMs(),
      } satisfies SessionAnswer),
    );
  }
}

/** Behind a proxy that ends TLS and is not in TRUST_PROXY, only the Origin tells what the browser sees. */
function isSecure({ protocol, headers }: FastifyRequest): boolean {
  return protocol === 'https' || headers.origin?.startsWith('https://') === true;
}
