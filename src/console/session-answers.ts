import { Injectable } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import type { ConsoleSession } from '../auth/index.js';
import { sendJson } from '../http/index.js';
import { RedisService } from '../redis/index.js';
import { stringifyJson } from '../wire/index.js';
import { IdentityProvider } from './identity-provider.js';
import type { SessionAnswer } from './page-answers.js';

/** Tells the page who is logged in, and how one can log in. */
@Injectable()
export class SessionAnswers {
  constructor(
    private readonly provider: IdentityProvider,
    private readonly redis: RedisService,
  ) {}

  /** @param logOutUrl where the browser goes on to log out at the provider */
  send(reply: FastifyReply, session: ConsoleSession | undefined, logOutUrl?: string): void {
    const { clock } = this.redis;
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
                ...(session.caller.tenants !== undefined && { tenants: session.caller.tenants }),
                expires_in_ms: session.expiresInMs,
              },
        has_provider: this.provider.isConfigured,
        ...(logOutUrl === undefined ? {} : { log_out_url: logOutUrl }),
        now_ms: clock.ledgerMs(),
        ...(clock.ahead > 0 && { clock_ahead_ms: clock.ahead }),
      } satisfies SessionAnswer),
    );
  }
}
