import { Controller, Post, Req, Res } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { AuthAttempts, ConsoleSessions, OperatorKeys, RateLimits, sessionCookie } from '../auth/index.js';
import { Operation, OperationAccess, PublicAccess, refuseForged } from '../http/index.js';
import { bodyOf, MaxLength } from '../wire/index.js';
import { SessionAnswers } from './session-answers.js';

class LogInDto {
  /** The key of an operator. */
  @MaxLength(1024)
  key!: string;
}

/** Log-in to the console's page by key. */
@ApiExcludeController()
@Controller('console/api')
export class LogInController {
  constructor(
    private readonly operators: OperatorKeys,
    private readonly sessions: ConsoleSessions,
    private readonly roles: OperationAccess,
    private readonly limits: RateLimits,
    private readonly attempts: AuthAttempts,
    private readonly answers: SessionAnswers,
  ) {}

  @Post('login')
  @PublicAccess()
  @Operation('logInToConsole')
  async logIn(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    refuseForged(request, this.attempts);
    const owner = await this.operators.find(bodyOf(request, LogInDto).key);
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
}
