import { Injectable } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import {
  type AdminCaller,
  AuthAttempts,
  type ConsoleSession,
  ConsoleSessions,
  sessionTokenIn,
} from '../auth/index.js';
import { Refusal } from '../ledger/index.js';

/** Pages of other origins cannot send it without a preflight, which is never granted to them with cookies. */
export const CONSOLE_HEADER = 'x-holdfast-console';
const API_KEY_HEADER = 'x-cycles-api-key';

export function isRead({ method }: FastifyRequest): boolean {
  return method === 'GET' || method === 'HEAD';
}

/**
 * A browser adds the cookie to every request to this host, whoever wrote the page that sends it. So a change also needs a header that
 * only our page sends, and an Origin that is this host. SameSite=Strict alone would trust other applications of the same site.
 * @throws Refusal FORBIDDEN
 */
export function refuseForged(request: FastifyRequest, attempts: AuthAttempts): void {
  const { origin, [CONSOLE_HEADER]: mark, 'sec-fetch-site': site } = request.headers;
  const isOurs =
    mark !== undefined && isOrigin(origin, request.host) && [undefined, 'same-origin'].includes(site);
  if (!isOurs) {
    attempts.refused('forged_request');
    throw new Refusal('FORBIDDEN', 'the request does not come from a page of this console');
  }
}

/** A `Host` may name the default port of its scheme, which an Origin never does. */
function isOrigin(origin: string | undefined, host: string): boolean {
  if (origin === undefined || !URL.canParse(origin)) {
    return false;
  }
  const { protocol, host: ofOrigin } = new URL(origin);
  const asked = `${protocol}//${host}`;
  return URL.canParse(asked) && new URL(asked).host === ofOrigin;
}

/** Accepts a session of the console where the admin key is accepted. */
@Injectable()
export class SessionAccess {
  constructor(
    private readonly sessions: ConsoleSessions,
    private readonly attempts: AuthAttempts,
  ) {}

  /** A request with an API key is never taken for one of the console, whatever cookies the browser adds. */
  isPresented(request: FastifyRequest): boolean {
    return request.headers[API_KEY_HEADER] === undefined && sessionTokenIn(request) !== undefined;
  }

  /** The session of the request, unless there is none or it has ended. @throws StoreUnavailable */
  async find(request: FastifyRequest): Promise<ConsoleSession | undefined> {
    const token = sessionTokenIn(request);
    return token === undefined ? undefined : await this.sessions.find(token);
  }

  /** @throws Refusal UNAUTHORIZED if the session has ended, FORBIDDEN if another page forged the request; StoreUnavailable */
  async callerOf(request: FastifyRequest): Promise<AdminCaller> {
    if (!isRead(request)) {
      refuseForged(request, this.attempts);
    }
    const session = await this.find(request);
    if (session === undefined) {
      this.attempts.refused('ended_session');
      throw new Refusal('UNAUTHORIZED', 'the session has ended; log in again');
    }
    return session.caller;
  }
}
