import { Inject, Injectable } from '@nestjs/common';
import type * as OpenIdClient from 'openid-client';
import {
  type AdminCaller,
  confinementOf,
  EVERYTHING,
  ProviderUnavailable,
  WrongSecret,
} from '../auth/index.js';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { Refusal } from '../ledger/index.js';
import { RedisService } from '../redis/index.js';
import { LOGGER, type Logger, MetricsRegistry } from '../telemetry/index.js';
import { type BegunLogIn, LOG_IN_LIFETIME_MS } from './log-in-cookie.js';
import { CONSOLE_METRICS } from './console.metrics.js';
import { actorOf, claimAt, roleIn, tenantsIn } from './provider-claims.js';
import { faultOf } from './provider-faults.js';

/** A person waits for each of them. */
const TIMEOUT_S = 5;
/** By how much the provider's clock may be behind that of Redis when a token expires. */
const TOLERANCE_S = 60;
/** Keys and endpoints that the provider changes are known after this. */
const DISCOVER_EVERY_MS = 600_000;
/** What is asked for, and what else if the provider says that it knows it: many give groups and roles only then. */
const SCOPES = ['openid', 'email', 'profile'];
const OPTIONAL_SCOPES = ['groups', 'roles'];
const CALLBACK_PATH = '/console/signed-in';

const UNFINISHED = 'the log-in took too long, or began in another browser; begin again';

type Settings = Required<Pick<HoldfastConfig, 'oidcIssuer' | 'oidcClientId' | 'oidcClientSecret'>>;

/**
 * Log-in by OpenID Connect: authorization code with PKCE, state and nonce, and a signed ID token. Nothing is asked of the provider before somebody logs in, so a
 * provider that is away neither delays a start nor turns readiness red.
 */
@Injectable()
export class IdentityProvider {
  private readonly counts = this.metrics.of(CONSOLE_METRICS);
  private discovered:
    { readonly server: Promise<OpenIdClient.ServerMetadata>; readonly at: number } | undefined;

  constructor(
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  get isConfigured(): boolean {
    return this.config.oidcIssuer !== undefined;
  }

  /** @param origin of the console in the browser. @throws ProviderUnavailable */
  async begin(origin: string): Promise<{ readonly url: string; readonly begun: BegunLogIn }> {
    const { client, configuration, server } = await this.connect();
    const begun: BegunLogIn = {
      state: client.randomState(),
      nonce: client.randomNonce(),
      verifier: client.randomPKCECodeVerifier(),
      redirectUri: `${origin}${CALLBACK_PATH}`,
      begunAtMs: this.redis.clock.nowMs(),
    };
    const known = server.scopes_supported ?? [];
    const url = client.buildAuthorizationUrl(configuration, {
      redirect_uri: begun.redirectUri,
      scope: [...SCOPES, ...OPTIONAL_SCOPES.filter((scope) => known.includes(scope))].join(' '),
      state: begun.state,
      nonce: begun.nonce,
      code_challenge: await client.calculatePKCECodeChallenge(begun.verifier),
      code_challenge_method: 'S256',
    });
    return { url: url.href, begun };
  }

  /**
   * @param query what the provider has sent back
   * @throws Refusal UNAUTHORIZED, FORBIDDEN if the account has no role here; ProviderUnavailable
   */
  async finish(
    begun: BegunLogIn | undefined,
    query: string,
  ): Promise<{ readonly owner: AdminCaller; readonly idToken: string }> {
    if (begun === undefined || this.redis.clock.nowMs() - begun.begunAtMs > LOG_IN_LIFETIME_MS) {
      throw this.refused('unfinished', UNFINISHED);
    }
    const { client, configuration, server } = await this.connect();
    const tokens = await client
      .authorizationCodeGrant(configuration, new URL(`${begun.redirectUri}?${query}`), {
        pkceCodeVerifier: begun.verifier,
        expectedState: begun.state,
        expectedNonce: begun.nonce,
        idTokenExpected: true,
      })
      .catch((error: unknown) => {
        throw this.judge(client, error);
      });
    const own = tokens.claims() as OpenIdClient.IDToken;
    let claims: Record<string, unknown> & { sub: string } = own;
    const isNamed = own['email'] !== undefined && (own['preferred_username'] ?? own['name']) !== undefined;
    const { oidcRoleClaim, oidcTenantClaim } = this.config;
    const judged = oidcTenantClaim === undefined ? [oidcRoleClaim] : [oidcRoleClaim, oidcTenantClaim];
    const isWhole = isNamed && judged.every((claim) => claimAt(own, claim) !== undefined);
    if (!isWhole && server.userinfo_endpoint !== undefined) {
      const more = await client
        .fetchUserInfo(configuration, tokens.access_token, own.sub)
        .catch((error: unknown) => {
          throw this.judge(client, error);
        });
      claims = { ...more, ...own };
    }
    const role = roleIn(claimAt(claims, oidcRoleClaim), this.config.oidcRoles);
    if (role === undefined) {
      this.counts.providerLogIns.inc({ outcome: 'no_role' });
      throw new Refusal(
        'FORBIDDEN',
        `the claim ${oidcRoleClaim} of this account stands for no role here; ask who runs this deployment`,
      );
    }
    const named = oidcTenantClaim === undefined ? [EVERYTHING] : tenantsIn(claimAt(claims, oidcTenantClaim));
    if (named.length === 0) {
      this.counts.providerLogIns.inc({ outcome: 'no_tenant' });
      throw new Refusal(
        'FORBIDDEN',
        `the claim ${oidcTenantClaim} of this account names no tenant; ask who runs this deployment`,
      );
    }
    this.counts.providerLogIns.inc({ outcome: 'ok' });
    const tenants = confinementOf(named);
    return {
      owner: { kind: 'admin', role, tenants, keyId: actorOf(claims) },
      idToken: tokens.id_token as string,
    };
  }

  /**
   * Where the browser logs out at the provider, if that offers it. Never rejects: the session here has ended anyway.
   * @param idToken says whose session it was, so that the provider need not ask
   */
  async logOutUrl(origin: string, idToken: string | undefined): Promise<string | undefined> {
    try {
      const { client, configuration, server } = await this.connect();
      return server.end_session_endpoint === undefined
        ? undefined
        : client.buildEndSessionUrl(configuration, {
            post_logout_redirect_uri: `${origin}/console/`,
            ...(idToken !== undefined && { id_token_hint: idToken }),
          }).href;
    } catch {
      return undefined;
    }
  }

  private async connect(): Promise<{
    client: typeof OpenIdClient;
    configuration: OpenIdClient.Configuration;
    server: OpenIdClient.ServerMetadata;
  }> {
    // Loaded with the first log-in, because no other request needs it.
    const client = await import('openid-client');
    const server = await this.discover(client);
    const { oidcClientId, oidcClientSecret } = this.config as unknown as Settings;
    const methods = server.token_endpoint_auth_methods_supported;
    const configuration = new client.Configuration(
      server,
      oidcClientId,
      { [client.clockSkew]: this.skewS(), [client.clockTolerance]: TOLERANCE_S },
      // The default of OpenID Connect Discovery is basic.
      methods === undefined || methods.includes('client_secret_basic')
        ? client.ClientSecretBasic(oidcClientSecret)
        : client.ClientSecretPost(oidcClientSecret),
    );
    configuration.timeout = TIMEOUT_S;
    client.enableNonRepudiationChecks(configuration);
    if (this.isInsecure) {
      client.allowInsecureRequests(configuration);
    }
    return { client, configuration, server };
  }

  private async discover(client: typeof OpenIdClient): Promise<OpenIdClient.ServerMetadata> {
    const now = performance.now();
    if (this.discovered === undefined || now - this.discovered.at > DISCOVER_EVERY_MS) {
      const { oidcIssuer, oidcClientId } = this.config as unknown as Settings;
      const server = client
        .discovery(oidcIssuer, oidcClientId, undefined, undefined, {
          timeout: TIMEOUT_S,
          // The library looks for this very function.
          execute: this.isInsecure ? [client.allowInsecureRequests] : [],
        })
        .then((configuration) => configuration.serverMetadata());
      this.discovered = { server, at: now };
    }
    try {
      return await this.discovered.server;
    } catch (error) {
      this.discovered = undefined;
      throw this.unavailable(error);
    }
  }

  /** The settings allow an issuer without TLS only on this machine. */
  private get isInsecure(): boolean {
    return this.config.oidcIssuer?.protocol === 'http:';
  }

  /** Tokens are judged by Redis' clock, whatever that of this host says. */
  private skewS(): number {
    // eslint-disable-next-line no-restricted-syntax -- the clock that the library reads
    return Math.round((this.redis.clock.nowMs() - new Date().getTime()) / 1000);
  }

  private judge(client: typeof OpenIdClient, error: unknown): Error {
    if (error instanceof client.AuthorizationResponseError) {
      return this.refused(
        'refused',
        `the identity provider refused the log-in: ${plainCode(error.error)}`,
        false,
      );
    }
    if (error instanceof client.ResponseBodyError && error.error === 'invalid_grant') {
      return this.refused('unfinished', UNFINISHED);
    }
    const fault = error instanceof client.ClientError ? faultOf(error) : undefined;
    if (fault !== undefined) {
      this.logger.warn({ err: error }, `a log-in by the identity provider failed: ${fault.message}`);
      return this.refused('invalid', fault.message, fault.isGuess);
    }
    return this.unavailable(error);
  }

  /** A log-in with a code that the provider knows is no guess, whatever came of it. */
  private refused(outcome: string, message: string, isGuess = true): Refusal {
    this.counts.providerLogIns.inc({ outcome });
    return isGuess ? new WrongSecret(message) : new Refusal('UNAUTHORIZED', message);
  }

  private unavailable(error: unknown): ProviderUnavailable {
    this.counts.providerLogIns.inc({ outcome: 'unavailable' });
    this.logger.error({ err: error }, 'the identity provider does not answer as it should');
    return new ProviderUnavailable(error);
  }
}

/** Error codes of OAuth 2.0 are ASCII without quotes and backslashes. */
function plainCode(code: string): string {
  return code.replaceAll(/[^\w.-]/g, '').slice(0, 64);
}
