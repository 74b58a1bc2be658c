import { setImmediate, setTimeout as delay } from 'node:timers/promises';
import type { FastifyRequest } from 'fastify';
import { Refusal, TooBusy } from '../ledger/index.js';
import { ConcurrencyLimiter, TimeShare } from '../redis/index.js';
import { UNVERIFIED } from './access.guard.js';
import type { Instruments, MetricsRegistry } from '../telemetry/index.js';
import { HTTP_METRICS } from './http.metrics.js';

/** All usual requests are smaller, even those with as much metadata as is allowed. */
export const LARGE_BODY_BYTES = 32_768;
/** The rest of the process' time is for requests of usual size. */
const SHARE = 0.25;
const LONGEST_WAIT_MS = 10_000;

/**
 * Lets requests with large bodies take turns, by valid API key, and use at most a share of the process' time. Parsing and checking such a body
 * takes milliseconds. With several of them in each turn of the event loop, a flood from one client would delay all other requests by
 * seconds, even if each one is refused.
 */
export class LargeBodies {
  private readonly turns = new ConcurrencyLimiter({ total: 1, perOwner: 1 });
  private readonly share = new TimeShare(SHARE);
  private turnOf: (request: FastifyRequest) => Promise<string> = () => Promise.resolve(UNVERIFIED);
  private counts: Instruments<typeof HTTP_METRICS> | undefined;

  /** @param waitMs the longest wait for a turn */
  constructor(private readonly waitMs = LONGEST_WAIT_MS) {}

  /** @param turnOf names who takes turns with others; never rejects */
  recogniseBy(turnOf: (request: FastifyRequest) => Promise<string>): void {
    this.turnOf = turnOf;
  }

  countIn(metrics: MetricsRegistry): void {
    this.counts = metrics.of(HTTP_METRICS);
  }

  /**
   * Calls `parse` when it is the request's turn. The turn lasts until the operation waits for Redis for the first time.
   * @throws TooBusy if that takes too long, Refusal if the client has disconnected; `parse` was not called then
   */
  async inTurn(request: FastifyRequest, parse: () => void): Promise<void> {
    const { socket } = request.raw;
    const gone = new AbortController();
    const leave = (): void => gone.abort();
    // One listener per pipelined request.
    socket.setMaxListeners(0).once('close', leave);
    const claim = { owner: await this.turnOf(request) };
    const result = await this.turns.acquire(claim, { waitMs: this.waitMs, signal: gone.signal });
    socket.off('close', leave);
    if (result === 'late') {
      this.counts?.largeBodiesRefused.inc();
      throw new TooBusy('too many requests with large bodies at the same time', 1);
    }
    if (result !== 'acquired') {
      throw disconnected();
    }
    try {
      for (let pauseMs = this.share.pauseMs(); pauseMs > 0; pauseMs = this.share.pauseMs()) {
        this.counts?.largeBodyPauses.inc();
        await delay(Math.ceil(pauseMs));
      }
      if (socket.destroyed) {
        throw disconnected();
      }
      this.share.begin();
      try {
        parse();
        await setImmediate();
      } finally {
        this.share.end();
      }
    } finally {
      this.turns.release(claim);
    }
  }
}

/** No client receives this response. */
const disconnected = (): Refusal =>
  new Refusal('INVALID_REQUEST', 'the client closed the connection before its request was read');
