import { Injectable } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  type AdminCaller,
  AUTH_METRICS,
  AuthAttempts,
  type Caller,
  grants,
  includesRole,
  mayActFor,
  type OperatorRole,
  type Permission,
  RateLimits,
  type Tenants,
  type TenantCaller,
} from '../auth/index.js';
import { Refusal } from '../ledger/index.js';
import { RedisService } from '../redis/index.js';
import { MetricsRegistry } from '../telemetry/index.js';
import type { AccessRule } from './access-rule.js';
import { type Confinement, type Owned, type Place, tenantOfText, textAt } from './confinement.js';

/** Whether the owner of a valid key may perform an operation now: a request, or one of a batch. */
@Injectable()
export class OperationAccess {
  constructor(
    private readonly limits: RateLimits,
    private readonly attempts: AuthAttempts,
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
  ) {}

  /**
   * Counts an operation for the limit of its key, and checks its permission.
   * @throws Refusal LIMIT_EXCEEDED, FORBIDDEN, INSUFFICIENT_PERMISSIONS
   */
  admit(caller: TenantCaller, rule: AccessRule, reply: FastifyReply): void {
    this.count(caller, rule, reply);
    const used = this.requirePermission(caller, rule);
    if (used !== undefined) {
      this.metrics.of(AUTH_METRICS).deprecated.inc({ permission: used });
      reply.header('X-Cycles-Permission-Deprecated', used);
    }
  }

  /** Counts an operation for the limit of its key, and sets the headers with what is left. @throws Refusal LIMIT_EXCEEDED */
  count({ keyId }: TenantCaller, { plane }: AccessRule, reply: FastifyReply): void {
    const { perKey } = this.limits;
    if (perKey === undefined || plane !== 'runtime') {
      reply.header('X-RateLimit-Remaining', '-1').header('X-RateLimit-Reset', '0');
    } else {
      perKey.admit(keyId, reply);
    }
  }

  /**
   * Checks the role of an operator. API keys have permissions instead.
   * @throws Refusal INSUFFICIENT_PERMISSIONS
   */
  requireRole(caller: Caller | undefined, needed: OperatorRole): void {
    if (caller?.kind === 'admin' && !includesRole(caller.role, needed)) {
      this.attempts.refused('missing_role');
      throw new Refusal(
        'INSUFFICIENT_PERMISSIONS',
        `this needs the role ${needed}, and the role of this key or session is ${caller.role}`,
      );
    }
  }

  /**
   * Checks that an operator that is confined to tenants acts for one of them. What does not say how it is confined is of the whole
   * deployment.
   * @throws Refusal FORBIDDEN, INSUFFICIENT_PERMISSIONS, or that it is not found for what no tenant of the operator owns; StoreUnavailable
   */
  requireTenant(
    { tenants }: AdminCaller,
    { confinement, plane }: AccessRule,
    request: FastifyRequest,
  ): Promise<void> | undefined {
    if (tenants === undefined || confinement === 'nothing' || confinement === 'filtered') {
      return undefined;
    }
    const words = `this operator is confined to the tenants ${tenants.join(', ')}`;
    if (confinement === undefined) {
      throw this.outside(plane, `${words}, and this is of the whole deployment`);
    }
    if ('ownerOf' in confinement) {
      return this.requireOwner(tenants, confinement, request, words);
    }
    const { place, tenantId } = namedTenant(confinement, tenants, request);
    if (tenantId === undefined && 'filteredAt' in confinement) {
      return undefined;
    }
    if (tenantId === undefined || !mayActFor(tenants, tenantId)) {
      const field = place.slice(place.indexOf('.') + 1);
      throw this.outside(plane, `${words}; ${field} must name one of them`, { field });
    }
    return undefined;
  }

  private async requireOwner(
    tenants: Tenants,
    { what, param, code = 'NOT_FOUND', ownerOf }: Owned,
    request: FastifyRequest,
    words: string,
  ): Promise<void> {
    const { [param]: id = '' } = request.params as Record<string, string>;
    const owner = await ownerOf(this.redis, id);
    if (owner === undefined || !mayActFor(tenants, owner)) {
      this.attempts.refused('other_tenant');
      throw new Refusal(code, `${words}, which have no such ${what}`);
    }
  }

  private outside(
    plane: AccessRule['plane'],
    message: string,
    details?: { readonly field: string },
  ): Refusal {
    this.attempts.refused('other_tenant');
    return new Refusal(missingRight(plane), message, details);
  }

  /**
   * @returns the permission that the key uses in place of the one that it lacks, if it does
   * @throws Refusal FORBIDDEN, INSUFFICIENT_PERMISSIONS
   */
  requirePermission(
    { permissions }: TenantCaller,
    { tenant: needed, deprecated, plane }: AccessRule,
  ): Permission | undefined {
    if (needed === undefined || needed === 'any' || grants(permissions, needed)) {
      return undefined;
    }
    if (deprecated !== undefined && grants(permissions, deprecated)) {
      return deprecated;
    }
    this.attempts.refused('missing_permission');
    throw new Refusal(missingRight(plane), `the API key lacks the permission ${needed}`, {
      permission: needed,
    });
  }
}

const missingRight = (plane: AccessRule['plane']): 'FORBIDDEN' | 'INSUFFICIENT_PERMISSIONS' =>
  plane === 'runtime' ? 'FORBIDDEN' : 'INSUFFICIENT_PERMISSIONS';

/** The tenant that a request names. An operator of one tenant need not name it in a query. */
function namedTenant(
  confinement: Exclude<Confinement, string | Owned>,
  tenants: readonly string[],
  request: FastifyRequest,
): { readonly place: Place; readonly tenantId: string | undefined } {
  if ('scopeAt' in confinement) {
    const place = confinement.scopeAt;
    return { place, tenantId: tenantOfText(textAt(request, place) ?? '') };
  }
  const place = 'tenantAt' in confinement ? confinement.tenantAt : confinement.filteredAt;
  const [only, ...others] = tenants;
  const isOne = only !== undefined && others.length === 0 && !only.endsWith('*');
  if (isOne && place.startsWith('query.')) {
    const query = request.query as Record<string, unknown>;
    query[place.slice('query.'.length)] ??= only;
  }
  return { place, tenantId: textAt(request, place) };
}
