import { setMaxListeners } from 'node:events';
import {
  applyDecorators,
  type CallHandler,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
  UseInterceptors,
} from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { from, lastValueFrom, type Observable } from 'rxjs';
import type { Caller } from '../auth/index.js';
import { Refusal, TooBusy } from '../ledger/index.js';
import {
  ChangeAbandoned,
  Changes,
  QueryAbandoned,
  QueryRefused,
  RedisService,
  SkippedNames,
} from '../redis/index.js';
import { SkipsDamaged } from './openapi/document.js';

/**
 * Calls the listener once the response has been sent, or cannot be sent because the client has disconnected. A response that is
 * pipelined behind another one has no socket yet and emits no event when the connection closes, so the connection is watched, too.
 */
export function onResponseEnd({ raw, request }: FastifyReply, listener: () => void): void {
  const { socket } = request.raw;
  if (raw.closed || socket.destroyed) {
    listener();
    return;
  }
  const isQueued = raw.socket === null;
  const end = (): void => {
    raw.off('close', end);
    socket.off('close', end);
    listener();
  };
  raw.once('close', end);
  if (isQueued) {
    // One listener per pipelined request.
    socket.setMaxListeners(0).once('close', end);
  }
}

/** Operators count as one tenant. */
function ownerOf(caller: Caller | undefined): string {
  return caller?.kind === 'tenant' ? caller.tenantId : '';
}

/** Aborted when the client disconnects before the response is complete. */
function disconnection(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  // Each waiting run of a query adds a listener. The query limits their number.
  setMaxListeners(0, gone.signal);
  onResponseEnd(reply, () => {
    if (!reply.raw.writableFinished) {
      gone.abort();
    }
  });
  return gone.signal;
}

/** Waits for a slot before the operation starts, and stops its runs when the client disconnects. */
@Injectable()
class QueryInterceptor implements NestInterceptor {
  constructor(private readonly redis: RedisService) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const http = context.switchToHttp();
    return from(this.answer(http.getRequest<FastifyRequest>(), http.getResponse<FastifyReply>(), next));
  }

  private async answer(request: FastifyRequest, reply: FastifyReply, next: CallHandler): Promise<unknown> {
    const { raw } = reply;
    const began = performance.now();
    try {
      request.skipped = new SkippedNames();
      const query = await this.redis.queries.admit(
        ownerOf(request.caller),
        disconnection(reply),
        request.skipped,
      );
      await readmitted(request, began, () => query.end());
      let isStreaming = false;
      try {
        const body: unknown = await query.run(() =>
          lastValueFrom(next.handle(), { defaultValue: undefined }),
        );
        // A streamed response continues after its handler. Others are complete by then, or returned.
        isStreaming = body === undefined && !raw.writableEnded;
        return body;
      } finally {
        if (isStreaming) {
          onResponseEnd(reply, () => query.end());
        } else {
          query.end();
        }
      }
    } catch (error) {
      throw refusalOf(request, error);
    }
  }
}

/** Waits for the tenant's other changes before the operation starts. */
@Injectable()
class ChangeInterceptor implements NestInterceptor {
  constructor(private readonly changes: Changes) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const http = context.switchToHttp();
    return from(
      inTurn(http.getRequest<FastifyRequest>(), http.getResponse<FastifyReply>(), {
        admit: (owner, signal) => this.changes.admit(owner, signal),
        work: (): Promise<unknown> => lastValueFrom(next.handle(), { defaultValue: undefined }),
      }),
    );
  }
}

/**
 * Does the work of a request in its turn, for a caller that is judged again after a wait.
 * @param admit waits for the turn, fairly among owners, and returns what ends it; the signal is aborted when the client disconnects
 */
export async function inTurn<T>(
  request: FastifyRequest,
  reply: FastifyReply,
  {
    admit,
    work,
  }: {
    readonly admit: (owner: string, signal: AbortSignal) => Promise<() => void>;
    readonly work: (signal: AbortSignal) => Promise<T>;
  },
): Promise<T> {
  const began = performance.now();
  const signal = disconnection(reply);
  try {
    const end = await admit(ownerOf(request.caller), signal);
    await readmitted(request, began, end);
    try {
      return await work(signal);
    } finally {
      end();
    }
  } catch (error) {
    throw refusalOf(request, error);
  }
}

/** Less is no wait for others. */
const WAITED_MS = 1;

/** Judges the caller again after a wait. If it may no longer act, its turn ends. */
async function readmitted(request: FastifyRequest, began: number, end: () => void): Promise<void> {
  if (performance.now() - began < WAITED_MS) {
    return;
  }
  try {
    await request.readmit?.(request);
  } catch (error) {
    end();
    throw error;
  }
}

/** What the answer says of an error. That nobody waits for the answer any more is no refusal that anybody looks for. */
function refusalOf(request: FastifyRequest, error: unknown): unknown {
  request.isUnaudited ||= error instanceof QueryAbandoned;
  if (error instanceof QueryRefused) {
    return new TooBusy(error.message, error.retryAfterS);
  }
  // No client receives this response, but it must not count as an unexpected error.
  return error instanceof QueryAbandoned || error instanceof ChangeAbandoned
    ? new Refusal('INVALID_REQUEST', error.message)
    : error;
}

/**
 * Marks an operation that reads many records: a list, a search, an export or a check. The number of concurrent ones is limited; further
 * ones get 429 with `Retry-After`. Such an operation must read through `RedisService.queries`.
 */
export function LimitedQuery(): MethodDecorator {
  return applyDecorators(UseInterceptors(QueryInterceptor), SkipsDamaged());
}

/**
 * Marks an operation that makes or changes one record of a tenant. Those of a tenant run one after the other; one that waits too long gets
 * 429 with `Retry-After`. Such an operation must end soon: it may look up a host name, which has a time limit, but must not call an
 * endpoint or walk through other records.
 */
export function LimitedChange(): MethodDecorator {
  return UseInterceptors(ChangeInterceptor);
}
