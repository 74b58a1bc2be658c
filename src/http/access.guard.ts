import { type CanActivate, type ExecutionContext, Inject, Injectable } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  type AdminCaller,
  ApiKeyVerifier,
  AuthAttempts,
  type Caller,
  OperatorKeys,
  type OperatorRole,
  RateLimits,
  sourceOf,
  type TenantCaller,
} from '../auth/index.js';
import { headerText } from '../ledger/index.js';
import { type AccessRule, accessRuleOf } from './access-rule.js';
import { OperationAccess } from './operation-access.js';
import { isRead, SessionAccess } from './session-access.js';

/** Header names in the case that Node gives them. */
export const ADMIN_KEY_HEADER = 'x-admin-api-key';
export const API_KEY_HEADER = 'x-cycles-api-key';

/** Operations under these paths must declare an access rule. */
const GUARDED = /^\/(v1|ops|console\/api)\//;

/** The value of a header, or undefined if it is blank. Repeated headers are joined by Node. */
export function presentedKey(request: FastifyRequest, name: string): string | undefined {
  const value = request.headers[name];
  return typeof value === 'string' && value.trim() !== '' ? headerText(value) : undefined;
}

/** The operator's key of a request. Prometheus sends it as a bearer token, which only scrapes accept. */
function presentedAdminKey(request: FastifyRequest, rule: AccessRule | undefined): string | undefined {
  const key = presentedKey(request, ADMIN_KEY_HEADER);
  if (key !== undefined || rule?.role !== 'metrics') {
    return key;
  }
  return /^Bearer (\S+)$/i.exec(headerText(request.headers.authorization ?? ''))?.[1];
}

/**
 * Checks the key of a request against the `@Access` rule of its operation and sets `request.caller`. A cached API key needs no promise,
 * because this runs before every operation.
 */
@Injectable()
export class AccessGuard implements CanActivate {
  private readonly rules = new Map<unknown, AccessRule | undefined>();
  private readonly readmissions = new Map<AccessRule, NonNullable<FastifyRequest['readmit']>>();

  constructor(
    private readonly operators: OperatorKeys,
    private readonly verifier: ApiKeyVerifier,
    private readonly attempts: AuthAttempts,
    private readonly limits: RateLimits,
    private readonly sessions: SessionAccess,
    private readonly access: OperationAccess,
  ) {}

  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    const http = context.switchToHttp();
    const request = http.getRequest<FastifyRequest>();
    const rule = this.ruleOf(context.getHandler());
    if (rule === undefined) {
      if (GUARDED.test(request.routeOptions.url ?? request.url)) {
        throw new Error(
          `the operation ${request.method} ${request.routeOptions.url ?? ''} declares no access rule`,
        );
      }
      return true;
    }
    if (rule.plane === 'public') {
      return true;
    }
    const reply = http.getResponse<FastifyReply>();
    request.readmit = this.readmissionOf(rule);
    const adminKey = rule.admin === true ? presentedAdminKey(request, rule) : undefined;
    const kind = adminKey !== undefined || rule.tenant === undefined ? 'admin_key' : 'api_key';
    try {
      if (adminKey === undefined && rule.admin === true && this.sessions.isPresented(request)) {
        return this.sessions.callerOf(request).then(
          (caller) => this.admitAdmin(caller, rule, request, reply),
          (error: unknown) => {
            throw this.limits.answerTo(error, 'admin_key', request.ip, reply);
          },
        );
      }
      const caller = kind === 'admin_key' ? this.ownerOf(adminKey, rule) : this.verified(request);
      return caller instanceof Promise
        ? caller.then(
            (verified) => this.admit(verified, rule, request, reply),
            (error: unknown) => {
              throw this.limits.answerTo(error, kind, request.ip, reply);
            },
          )
        : this.admit(caller, rule, request, reply);
    } catch (error) {
      throw this.limits.answerTo(error, kind, request.ip, reply);
    }
  }

  private admit(
    caller: Caller,
    rule: AccessRule,
    request: FastifyRequest,
    reply: FastifyReply,
  ): true | Promise<true> {
    return caller.kind === 'tenant'
      ? this.admitTenant(caller, rule, request, reply)
      : this.admitAdmin(caller, rule, request, reply);
  }

  /** Whoever has waited may have lost the right to act meanwhile. The limits have counted the request already. */
  private readmissionOf(rule: AccessRule): NonNullable<FastifyRequest['readmit']> {
    let readmit = this.readmissions.get(rule);
    if (readmit === undefined) {
      readmit = async (request) => {
        if (request.caller?.kind === 'tenant') {
          request.caller = await this.verified(request);
          this.access.requirePermission(request.caller, rule);
          return;
        }
        const adminKey = presentedAdminKey(request, rule);
        const caller =
          adminKey === undefined && this.sessions.isPresented(request)
            ? await this.sessions.callerOf(request)
            : await this.ownerOf(adminKey, rule);
        this.access.requireRole(caller, neededRole(rule, request));
        await this.access.requireTenant(caller, rule, request);
        request.caller = caller;
      };
      this.readmissions.set(rule, readmit);
    }
    return readmit;
  }

  private verified(request: FastifyRequest): TenantCaller | Promise<TenantCaller> {
    const secret = presentedKey(request, API_KEY_HEADER);
    if (secret === undefined) {
      throw this.verifier.refusal('missing_key');
    }
    return this.verifier.verify(secret);
  }

  private ruleOf(handler: object): AccessRule | undefined {
    let rule = this.rules.get(handler);
    if (rule === undefined && !this.rules.has(handler)) {
      rule = accessRuleOf(handler);
      this.rules.set(handler, rule);
    }
    return rule;
  }

  private ownerOf(adminKey: string | undefined, rule: AccessRule): AdminCaller | Promise<AdminCaller> {
    if (adminKey === undefined) {
      throw this.operators.refusal('missing_admin_key');
    }
    return rule.role === 'metrics' ? this.operators.verifyScraper(adminKey) : this.operators.verify(adminKey);
  }

  private admitAdmin(
    caller: AdminCaller,
    rule: AccessRule,
    request: FastifyRequest,
    reply: FastifyReply,
  ): true | Promise<true> {
    request.caller = caller;
    this.access.requireRole(caller, neededRole(rule, request));
    reply.header('X-RateLimit-Remaining', '-1').header('X-RateLimit-Reset', '0');
    return this.access.requireTenant(caller, rule, request)?.then(() => true as const) ?? true;
  }

  private admitTenant(
    caller: TenantCaller,
    rule: AccessRule,
    request: FastifyRequest,
    reply: FastifyReply,
  ): true {
    this.attempts.succeeded();
    request.caller = caller;
    reply.header('X-Cycles-Tenant', caller.tenantId);
    this.access.admit(caller, rule, reply);
    return true;
  }
}

function neededRole(rule: AccessRule, request: FastifyRequest): OperatorRole {
  return rule.role ?? (isRead(request) ? 'viewer' : 'operator');
}

/** Limits public documents by source address. Health is not limited, because orchestrators must always get a response. */
@Injectable()
export class PublicRateLimit implements CanActivate {
  constructor(@Inject(RateLimits) private readonly limits: RateLimits) {}

  canActivate(context: ExecutionContext): true {
    const http = context.switchToHttp();
    this.limits.public?.admit(
      sourceOf(http.getRequest<FastifyRequest>().ip),
      http.getResponse<FastifyReply>(),
    );
    return true;
  }
}

/** No key has this id. */
export const UNVERIFIED = 'unverified';

/** Finds the caller of a request that ended before the access guard ran, for the audit log. Grants no access. */
@Injectable()
export class CallerFinder {
  constructor(
    private readonly operators: OperatorKeys,
    private readonly verifier: ApiKeyVerifier,
    private readonly sessions: SessionAccess,
  ) {}

  /**
   * Who takes turns with others, by what could be verified. All callers without a valid key share one turn, because anybody can make up
   * keys. Never rejects.
   */
  async turnOf(request: FastifyRequest): Promise<string> {
    try {
      const adminKey = presentedKey(request, ADMIN_KEY_HEADER);
      const isOperator =
        adminKey === undefined
          ? this.sessions.isPresented(request) && (await this.sessions.find(request)) !== undefined
          : typeof (await this.operators.find(adminKey)) !== 'string';
      if (isOperator) {
        return 'operators';
      }
      const secret = presentedKey(request, API_KEY_HEADER);
      const caller = secret === undefined ? undefined : await this.verifier.recognise(secret);
      return caller === undefined ? UNVERIFIED : caller.keyId;
    } catch {
      return UNVERIFIED;
    }
  }

  /** Never rejects: returns undefined if the store is unavailable. @param rule of the operation; without one, either key counts */
  async find(request: FastifyRequest, rule: AccessRule | undefined): Promise<Caller | undefined> {
    try {
      const adminKey =
        rule === undefined || rule.admin === true ? presentedKey(request, ADMIN_KEY_HEADER) : undefined;
      if (adminKey !== undefined) {
        const owner = await this.operators.find(adminKey);
        return typeof owner === 'string' ? undefined : owner;
      }
      const secret =
        rule === undefined || rule.tenant !== undefined ? presentedKey(request, API_KEY_HEADER) : undefined;
      return secret === undefined ? undefined : await this.verifier.verify(secret);
    } catch {
      return undefined;
    }
  }
}
