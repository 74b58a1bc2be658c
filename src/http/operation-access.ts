import { Injectable } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import {
  AuthAttempts,
  type Caller,
  grants,
  includesRole,
  type OperatorRole,
  type Permission,
  RateLimits,
  type TenantCaller,
} from '../auth/index.js';
import { Refusal } from '../ledger/index.js';
import type { AccessRule } from './access-rule.js';

/** Whether the owner of a valid key may perform an operation now: a request, or one of a batch. */
@Injectable()
export class OperationAccess {
  constructor(
    private readonly limits: RateLimits,
    private readonly attempts: AuthAttempts,
  ) {}

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
    const code = plane === 'runtime' ? 'FORBIDDEN' : 'INSUFFICIENT_PERMISSIONS';
    throw new Refusal(code, `the API key lacks the permission ${needed}`, { permission: needed });
  }
}
