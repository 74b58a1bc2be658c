import { isIP, type LookupFunction } from 'node:net';
import { Module, type OnApplicationShutdown } from '@nestjs/common';
import { Agent, buildConnector } from 'undici';
import { TargetPolicyModule } from '../target-policy/security-config.controller.js';
import { TargetPolicy } from '../target-policy/target-policy.js';
import { Attempt, type AttemptOutcome } from './attempt.js';

/** Connections to endpoints are kept this long without a request, unless the endpoint says otherwise, and never longer than the second. */
const KEEP_ALIVE_MS = 4000;
const KEEP_ALIVE_MAX_MS = 30_000;
/** An address that does not answer at all is given up after this, so that no socket is left behind by attempts that are over. */
const CONNECT_TIMEOUT_MS = 10_000;

/** Who says what may be dialled. */
export interface DialPolicy {
  /** The address of a host, or an error with the code `TARGET_BLOCKED`. Host names that are addresses already are asked about, too. */
  readonly lookup: LookupFunction;
  /** Why the configuration of the moment refuses a URL before its host is looked up, in words; undefined when it does not. */
  urlRefusal(url: URL): Promise<string | undefined>;
  /** Makes the lookups of all that `dial` begins those of an owner. */
  forOwner<T>(owner: string, dial: () => T): T;
  /** Changes with the configuration that `urlRefusal` asked. */
  revision(): string | number;
}

export interface WebhookRequest {
  /** Whose subscription it is. */
  readonly owner: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Buffer;
  /** For all of it: looking up, connecting, sending, and the answer's status. */
  readonly timeoutMs: number;
}

/** What a transport trusts beyond the system's own list of certificate authorities. */
export interface TransportTrust {
  readonly ca?: string;
}

/**
 * POSTs to endpoints that nobody knows: HTTP/1.1 over kept-alive connections, certificates verified, redirects not followed, answers
 * read within bounds, and each address asked of the policy at the moment it is dialled, so that the address that was checked is
 * the one that is connected to.
 */
export class WebhookTransport implements OnApplicationShutdown {
  private agent: Agent;
  private revision: string | number;

  constructor(
    private readonly policy: DialPolicy,
    private readonly trust: TransportTrust = {},
  ) {
    this.agent = newAgent(policy, trust);
    this.revision = policy.revision();
  }

  /** Never throws: whatever goes wrong is an outcome. */
  async post(request: WebhookRequest): Promise<AttemptOutcome> {
    const startedAt = performance.now();
    try {
      const url = new URL(request.url);
      const refusal = await this.policy.urlRefusal(url);
      if (refusal !== undefined) {
        return { ok: false, durationMs: 0, error: refusal, reason: 'target_blocked' };
      }
      return await this.send(url, request);
    } catch (error) {
      const durationMs = Math.round(performance.now() - startedAt);
      return { ok: false, durationMs, error: (error as Error).message, reason: 'transport_error' };
    }
  }

  /** Whoever sends has ended its attempts by now; what is left are idle connections. */
  async onApplicationShutdown(): Promise<void> {
    await this.agent.destroy();
  }

  private send(url: URL, { owner, headers, body, timeoutMs }: WebhookRequest): Promise<AttemptOutcome> {
    const agent = this.agentOfNow();
    return new Promise((resolve) => {
      const attempt = new Attempt(timeoutMs, resolve);
      // The attempt has one time limit for all of it; undici's own would only be others.
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

  /** Connections that were made under another configuration end with the requests that are on them. */
  private agentOfNow(): Agent {
    const revision = this.policy.revision();
    if (revision !== this.revision) {
      // Closing waits for what is under way, which ends by its own time limits, and nobody waits for that.
      this.agent.close(() => undefined);
      this.agent = newAgent(this.policy, this.trust);
      this.revision = revision;
    }
    return this.agent;
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
      // Node looks up names only, so the policy is asked about an address here.
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

@Module({
  imports: [TargetPolicyModule],
  providers: [
    {
      provide: WebhookTransport,
      inject: [TargetPolicy],
      useFactory: (policy: TargetPolicy) => new WebhookTransport(policy),
    },
  ],
  exports: [WebhookTransport],
})
export class TransportModule {}
