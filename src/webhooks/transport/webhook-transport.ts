import { isIP, type LookupFunction } from 'node:net';
import type { OnApplicationShutdown } from '@nestjs/common';
import { Agent, buildConnector } from 'undici';
import type { RedisClock } from '../../redis/index.js';
import { Attempt, type AttemptOutcome } from './attempt.js';

/** How long an idle connection is kept, unless the endpoint says otherwise. */
const KEEP_ALIVE_MS = 4000;
/** The most that an endpoint can ask for. */
const KEEP_ALIVE_MAX_MS = 30_000;
/** Ends a connection attempt to an address that does not respond, so that no socket outlives its attempt for long. */
const CONNECT_TIMEOUT_MS = 10_000;

/** Decides what may be connected to. */
export interface DialPolicy {
  /** The addresses of a host, or an error with the code `TARGET_BLOCKED`. Also called for hosts that are addresses themselves. */
  readonly lookup: LookupFunction;
  /** Why the current configuration refuses a URL, apart from its host's addresses; undefined if it does not. */
  urlRefusal(url: URL): Promise<string | undefined>;
  /** Why a connection to a host would fail now, as far as that is known without a lookup. */
  knownFailure(hostname: string): Error | undefined;
  /** Counts all lookups that `dial` starts against an owner. */
  forOwner<T>(owner: string, dial: () => T): T;
  /** Changes with the configuration that `urlRefusal` uses. */
  revision(): string | number;
}

export interface WebhookRequest {
  /** The owner of the subscription. */
  readonly owner: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Buffer;
  /** For everything: lookup, connection, sending, and waiting for the status. */
  readonly timeoutMs: number;
}

/** Certificate authorities to trust in place of the system's own. */
export interface TransportTrust {
  readonly ca?: string;
}

/**
 * POSTs to untrusted endpoints: HTTP/1.1 over keep-alive connections, with certificates verified, redirects not followed and responses
 * bounded. The policy checks each address while connecting, so that the address checked is the address connected to.
 */
export class WebhookTransport implements OnApplicationShutdown {
  private agent: Agent;
  private revision: string | number;
  /** How many connections are open, by origin. */
  private readonly connections = new Map<string, number>();

  constructor(
    private readonly policy: DialPolicy,
    private readonly clock: Pick<RedisClock, 'nowMs'>,
    private readonly trust: TransportTrust = {},
  ) {
    this.agent = this.newAgent();
    this.revision = policy.revision();
  }

  /** Never throws: every failure is an outcome. */
  async post(request: WebhookRequest): Promise<AttemptOutcome> {
    const startedAt = performance.now();
    try {
      const url = new URL(request.url);
      const refusal = await this.policy.urlRefusal(url);
      if (refusal !== undefined) {
        return { ok: false, durationMs: 0, error: refusal, reason: 'target_blocked' };
      }
      const failure = this.connections.has(url.origin) ? undefined : this.policy.knownFailure(url.hostname);
      if (failure !== undefined) {
        // Otherwise each such attempt would make a connection object and a socket, which cost more than the rest of it.
        return { ok: false, durationMs: 0, error: failure.message, reason: 'transport_error' };
      }
      return await this.send(url, request);
    } catch (error) {
      const durationMs = Math.round(performance.now() - startedAt);
      return { ok: false, durationMs, error: (error as Error).message, reason: 'transport_error' };
    }
  }

  /** All attempts have ended by now; only idle connections are left. */
  async onApplicationShutdown(): Promise<void> {
    await this.agent.destroy();
  }

  private send(url: URL, { owner, headers, body, timeoutMs }: WebhookRequest): Promise<AttemptOutcome> {
    const agent = this.currentAgent();
    return new Promise((resolve) => {
      const attempt = new Attempt(timeoutMs, resolve, this.clock);
      // The attempt has a single time limit, so undici's own are disabled.
      const noLimits = { headersTimeout: 0, bodyTimeout: 0 };
      try {
        const request = {
          ...noLimits,
          origin: url.origin,
          path: url.pathname + url.search,
          method: 'POST',
          headers,
          body,
        } as const;
        this.policy.forOwner(owner, () => agent.dispatch(request, attempt));
      } catch (error) {
        attempt.onResponseError(undefined, error as Error);
      }
    });
  }

  /** A changed configuration gets new connections. The old ones end with their current requests. */
  private currentAgent(): Agent {
    const revision = this.policy.revision();
    if (revision !== this.revision) {
      // Waits in the background for requests in flight, which end by their own time limits.
      this.agent.close(() => undefined);
      this.agent = this.newAgent();
      this.revision = revision;
    }
    return this.agent;
  }

  private newAgent(): Agent {
    const count = ({ origin }: URL, change: number): void => {
      const open = (this.connections.get(origin) ?? 0) + change;
      if (open > 0) {
        this.connections.set(origin, open);
      } else {
        this.connections.delete(origin);
      }
    };
    return newAgent(this.policy, this.trust)
      .on('connect', (origin) => count(origin, 1))
      .on('disconnect', (origin) => count(origin, -1));
  }
}

function newAgent(policy: DialPolicy, trust: TransportTrust): Agent {
  const dial = buildConnector({
    ...trust,
    lookup: policy.lookup,
    rejectUnauthorized: true,
    allowH2: false,
    timeout: CONNECT_TIMEOUT_MS,
  });
  return new Agent({
    keepAliveTimeout: KEEP_ALIVE_MS,
    keepAliveMaxTimeout: KEEP_ALIVE_MAX_MS,
    connect: (options, callback) => {
      if (isIP(options.hostname) === 0) {
        dial(options, callback);
        return;
      }
      // Node only looks up names, so addresses are checked here.
      policy.lookup(options.hostname, { all: true }, (error) => {
        if (error !== null) {
          callback(error, null);
          return;
        }
        dial(options, callback);
      });
    },
  });
}
