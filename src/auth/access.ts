import { applyDecorators, SetMetadata } from '@nestjs/common';
import { ApiSecurity } from '@nestjs/swagger';
import type { Permission } from './permissions.js';

export interface AccessRule {
  /** Decides which code a key without the permission gets: the runtime's FORBIDDEN or governance's INSUFFICIENT_PERMISSIONS. */
  readonly plane: 'runtime' | 'admin';
  /** The permission that an API key needs, or that any valid one will do; without it, API keys are not accepted at all. */
  readonly tenant?: Permission | 'any';
  /** Whether the admin key is accepted. Where it is, a wrong one is refused even beside a valid API key. */
  readonly admin?: boolean;
}

export const ACCESS_RULE = 'holdfast:access';

/** Says who may call an operation. Every operation under /v1 and /ops needs it: one without is refused. */
export function Access(rule: AccessRule): MethodDecorator {
  return applyDecorators(
    SetMetadata(ACCESS_RULE, rule),
    ...(rule.tenant === undefined ? [] : [ApiSecurity('ApiKeyAuth')]),
    ...(rule.admin === true ? [ApiSecurity('AdminKeyAuth')] : []),
  );
}

/** The rule of an operation's handler, or undefined when it declares none. */
export function accessRuleOf(handler: object): AccessRule | undefined {
  return Reflect.getMetadata(ACCESS_RULE, handler) as AccessRule | undefined;
}
