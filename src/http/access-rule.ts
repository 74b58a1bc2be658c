import { applyDecorators, SetMetadata } from '@nestjs/common';
import { ApiExtension, ApiSecurity } from '@nestjs/swagger';
import type { OperatorRole, Permission } from '../auth/index.js';
import type { Confinement } from './confinement.js';

export interface AccessRule {
  /**
   * The plane decides the code for a missing permission: FORBIDDEN (runtime) or INSUFFICIENT_PERMISSIONS (admin). Public operations
   * read no key.
   */
  readonly plane: 'runtime' | 'admin' | 'public';
  /** The permission that an API key needs, or `any` for every valid key. Without it, API keys are not accepted. */
  readonly tenant?: Permission | 'any';
  /** A permission that is accepted in its place, which the response then says. */
  readonly deprecated?: Permission;
  /**
   * Whether the admin key is accepted, or a session of the console in its place. If so, a wrong key is refused, even with a valid API
   * key.
   */
  readonly admin?: boolean;
  /** The role that an operator needs at least. By default, a viewer may read, and an operator may change. */
  readonly role?: OperatorRole;
  /** How it is confined for operators of some tenants. Without it, they are refused: it is of the whole deployment. */
  readonly confinement?: Confinement;
}

const ACCESS_RULE = 'holdfast:access';

/** Declares who may call an operation. Every operation under /v1 and /ops needs it, or is refused. */
export function Access(rule: AccessRule): MethodDecorator {
  return applyDecorators(
    SetMetadata(ACCESS_RULE, rule),
    ...(rule.tenant === undefined ? [] : [ApiSecurity('ApiKeyAuth')]),
    ...(rule.admin === true ? [ApiSecurity('AdminKeyAuth')] : []),
    ...(rule.role === undefined ? [] : [ApiExtension('x-holdfast-role', rule.role)]),
  );
}

/** Declares that anybody may call an operation. */
export function PublicAccess(): MethodDecorator {
  return SetMetadata(ACCESS_RULE, { plane: 'public' } satisfies AccessRule);
}

/** The rule of an operation's handler, if it declares one. */
export function accessRuleOf(handler: object): AccessRule | undefined {
  return Reflect.getMetadata(ACCESS_RULE, handler) as AccessRule | undefined;
}
