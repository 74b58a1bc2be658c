import { Controller, Inject, Post, Req, Res, UseGuards } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  AuthAttempts,
  type ConsoleSession,
  ConsoleSessions,
  RateLimits,
  sessionCookie,
} from '../auth/index.js';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { Operation, PublicAccess, PublicRateLimit, refuseForged, sendJson } from '../http/index.js';
import { Refusal } from '../ledger/index.js';
import { bodyOf, MaxLength, stringifyJson } from '../wire/index.js';
import { IdentityProvider } from './identity-provider.js';
import { type BegunLogIn, LogInCookies } from './log-in-cookie.js';
import { SessionAnswers } from './session-answers.js';

class FinishDto {
  /** The query of the address to which the provider has sent the browser. */
  @MaxLength(8192)
  query!: string;
}

/**
 * Log-in by the identity provider. The page begins it, the provider sends the browser back to the page, and the page finishes it, so
 * both requests are the page's own, as log-in by key is, and no cookie has to be sent with requests from other sites.
 */
@ApiExcludeController()
@UseGuards(PublicRateLimit)
@Controller('console/api/provider')
export class ProviderController {
  private readonly cookies: LogInCookies;

  constructor(
    private readonly provider: IdentityProvider,
    private readonly sessions: ConsoleSessions,
    private readonly limits: RateLimits,
    private readonly attempts: AuthAttempts,
    private readonly answers: SessionAnswers,
    @Inject(CONFIG) { oidcClientSecret = '' }: HoldfastConfig,
  ) {
    this.cookies = new LogInCookies(oidcClientSecret);
  }

  @Post('begin')
  @PublicAccess()
  @Operation('beginProviderLogIn')
  async begin(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    this.require(request);
    const { url, begun } = await this.provider.begin(request.headers.origin as string);
    reply.header('set-cookie', this.cookies.add(request, begun)).header('cache-control', 'no-store');
    sendJson(reply, 200, stringifyJson({ url }));
  }

  @Post('finish')
  @PublicAccess()
  @Operation('finishProviderLogIn')
  async finish(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    this.require(request);
    const { query } = bodyOf(request, FinishDto);
    const session = await this.open(request, reply, query);
    this.answers.send(reply, session);
  }

  private async open(request: FastifyRequest, reply: FastifyReply, query: string): Promise<ConsoleSession> {
    try {
      const begun = this.cookies.find(request, query);
      const { owner, idToken } = await this.provider.finish(begun, query);
      const { token, session } = await this.sessions.create(owner, idToken);
      const left = this.cookies.without(request, begun as BegunLogIn);
      reply.header('set-cookie', [sessionCookie(request, token), left]);
      request.caller = session.caller;
      this.attempts.succeeded();
      return session;
    } catch (error) {
      if (error instanceof Refusal) {
        this.attempts.refused('provider_log_in');
      }
      throw this.limits.answerTo(error, 'admin_key', request.ip, reply);
    }
  }

  /** @throws Refusal NOT_FOUND without a provider, FORBIDDEN if another page forged the request */
  private require(request: FastifyRequest): void {
    if (!this.provider.isConfigured) {
      throw new Refusal('NOT_FOUND', 'this deployment has no identity provider');
    }
    refuseForged(request, this.attempts);
  }
}
