import { IsIn } from 'class-validator';
import {
  isTenantPattern,
  MAX_TENANT_PATTERNS,
  OPERATOR_ROLES,
  type OperatorRole,
  TENANT_PATTERN,
} from '../../auth/index.js';
import { DAY_MS } from '../../ledger/index.js';
import {
  IsDateTime,
  IsInt,
  Matches,
  MaxLength,
  Obeys,
  Optional,
  PageQueryDto,
  type Rule,
} from '../../wire/index.js';

/** Lower case, so that two names never differ only in that. An e-mail address is a name. */
export const OPERATOR_NAME = /^[a-z0-9][a-z0-9._@+-]{0,127}$/;

export const OPERATOR_STATUSES = ['ACTIVE', 'REVOKED', 'EXPIRED'] as const;
type OperatorStatus = (typeof OPERATOR_STATUSES)[number];

/** A week: long enough to bring a key to every machine, short enough that nobody forgets the one before. */
const LONGEST_OVERLAP_MS = 7 * DAY_MS;
export const DEFAULT_OVERLAP_MS = DAY_MS;

const TENANTS: Rule = {
  name: 'tenants',
  test: (value) =>
    Array.isArray(value) &&
    value.length >= 1 &&
    value.length <= MAX_TENANT_PATTERNS &&
    value.every((entry) => isTenantPattern(entry)),
  schema: {
    type: 'array',
    minItems: 1,
    maxItems: MAX_TENANT_PATTERNS,
    items: { type: 'string', pattern: TENANT_PATTERN.source },
  },
  phrase: `1 to ${MAX_TENANT_PATTERNS} ids of tenants, or how they begin, as in team-*, or * for the whole deployment`,
};

export class OperatorCreateDto {
  @Matches(OPERATOR_NAME)
  name!: string;

  @IsIn(OPERATOR_ROLES)
  role!: OperatorRole;

  /** Without them, or with `*`, the operator is of the whole deployment. */
  @Optional(Obeys(TENANTS))
  tenants?: readonly string[];

  @Optional(IsDateTime())
  expires_at?: string;
}

export class OperatorUpdateDto {
  @Optional(IsIn(OPERATOR_ROLES))
  role?: OperatorRole;

  /** They replace those before; `*` ends the confinement. */
  @Optional(Obeys(TENANTS))
  tenants?: readonly string[];
}

export class OperatorRotateDto {
  /** How long the key before still works. */
  @Optional(IsInt({ min: 0, max: LONGEST_OVERLAP_MS }))
  overlap_ms?: number;

  /** Of the new key; without it, that of the key before. */
  @Optional(IsDateTime())
  expires_at?: string;
}

export class OperatorListQueryDto extends PageQueryDto {
  @Optional(IsIn(OPERATOR_STATUSES))
  status?: OperatorStatus;
}

export class OperatorRevokeQueryDto {
  @Optional(MaxLength(512))
  reason?: string;
}
