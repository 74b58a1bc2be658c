import { setImmediate, setTimeout as delay } from 'node:timers/promises';
import type { FastifyRequest } from 'fastify';
import { Counter, type Registry } from 'prom-client';
import { ConcurrencyLimiter, TimeShare } from '../redis/index.js';
import { API_KEY_HEADER, presentedKey } from './access.guard.js';

/** All usual requests are smaller, even those with as much metadata as METADATA_LIMIT_BYTES allows by default. */
export const LARGE_BODY_BYTES = 32_768;
/** The rest of the process' time is for requests of usual size. */
const SHARE = 0.25;

/**
 * Lets requests with large bodies take turns, by API key, and use at most a share of the process' time. Parsing and checking such a body
 * takes milliseconds. With several of them in each turn of the event loop, a flood from one client would delay all other requests by
 * seconds, even if each one is refused.
 */
export class LargeBodies {
  private readonly turns = new ConcurrencyLimiter({ total: 1, perOwner: 1 });
  private readonly share = new TimeShare(SHARE);
  private pauses: Counter | undefined;

  countIn(registry: Registry): void {
    this.pauses = new Counter({
      name: 'holdfast_large_body_pauses_total',
      help: 'Pauses of requests with large bodies, because these had used up their share of the time.',
      registers: [registry],
    });
  }

  /**
   * Calls `parse` when it is the request's turn. The turn lasts until the operation waits for Redis for the first time.
   * @returns false if the client disconnected before; `parse` was not called then
   */
  async inTurn(request: FastifyRequest, parse: () => void): Promise<boolean> {
    const { socket } = request.raw;
    const gone = new AbortController();
    const leave = (): void => gone.abort();
    // One listener per pipelined request.
    socket.setMaxListeners(0).once('close', leave);
    const claim = { owner: presentedKey(request, API_KEY_HEADER) ?? request.ip };
    const result = socket.destroyed ? 'gone' : await this.turns.acquire(claim, { signal: gone.signal });
    if (result !== 'acquired') {
      return false;
    }
    try {
      for (let pauseMs = this.share.pauseMs(); pauseMs > 0; pauseMs = this.share.pauseMs()) {
        this.pauses?.inc();
        await delay(Math.ceil(pauseMs));
      }
      if (socket.destroyed) {
        return false;
      }
      this.share.begin();
      parse();
      await setImmediate();
      this.share.end();
      return true;
    } finally {
      socket.off('close', leave);
      this.turns.release(claim);
    }
  }
}
