import { setMaxListeners } from 'node:events';
import {
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
import { QueryAbandoned, QueryRefused, RedisService } from '../redis/index.js';

/**
 * Calls the listener once the answer is out, or can no longer go out because the client is gone. An answer that is pipelined behind
 * another one has no socket yet and emits nothing when the connection ends, so the connection itself is watched for it.
 */
export function whenOver({ raw, request }: FastifyReply, listener: () => void): void {
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
    // One for each answer that the client pipelines.
    socket.setMaxListeners(0).once('close', end);
  }
}

/** Operators count as one tenant. */
function ownerOf(caller: Caller | undefined): string {
  return caller?.kind === 'tenant' ? caller.tenantId : '';
}

/** Lets the operation begin when there is a place for it, and ends its runs when the client goes away. */
@Injectable()
class QueryInterceptor implements NestInterceptor {
  constructor(private readonly redis: RedisService) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const http = context.switchToHttp();
    return from(this.answer(http.getRequest<FastifyRequest>(), http.getResponse<FastifyReply>(), next));
  }

  private async answer(request: FastifyRequest, reply: FastifyReply, next: CallHandler): Promise<void> {
    const gone = new AbortController();
    // Each run that waits listens; how many there are is bounded by the query itself.
    setMaxListeners(0, gone.signal);
    const { raw } = reply;
    whenOver(reply, () => {
      if (!raw.writableFinished) {
        gone.abort();
      }
    });
    try {
      const query = await this.redis.queries.begin(ownerOf(request.caller), gone.signal);
      let goesOn = false;
      try {
        await query.run(() => lastValueFrom(next.handle(), { defaultValue: undefined }));
        // What is sent as a stream goes on after its handler; other answers are complete by then.
        goesOn = !raw.writableEnded;
      } finally {
        if (goesOn) {
          whenOver(reply, () => query.end());
        } else {
          query.end();
        }
      }
    } catch (error) {
      throw refusalOf(error);
    }
  }
}

function refusalOf(error: unknown): unknown {
  if (error instanceof QueryRefused) {
    return new TooBusy(error.message, error.retryAfterS);
  }
  // Nobody reads this answer, but it must not count as an error of the service.
  return error instanceof QueryAbandoned ? new Refusal('INVALID_REQUEST', error.message) : error;
}

/**
 * Marks an operation that reads many records: a list, a search, an export or a check. So many of them are answered at the same time;
 * beyond that the answer is 429 with `Retry-After`. Such an operation reads through `RedisService.queries`.
 */
export function LimitedQuery(): MethodDecorator {
  return UseInterceptors(QueryInterceptor);
}
