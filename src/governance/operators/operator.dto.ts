import { IsIn, IsInt, IsString, Matches, Max, Min } from 'class-validator';
import { OPERATOR_ROLES, type OperatorRole } from '../../auth/index.js';
import { DAY_MS } from '../../ledger/index.js';
import { IsDateTime, MaxLength, Optional, PageQueryDto } from '../../wire/index.js';

/** Lower case, so that two names never differ only in that. An e-mail address is a name. */
export const OPERATOR_NAME = /^[a-z0-9][a-z0-9._@+-]{0,127}$/;

export const OPERATOR_STATUSES = ['ACTIVE', 'REVOKED', 'EXPIRED'] as const;
export type OperatorStatus = (typeof OPERATOR_STATUSES)[number];

/** A week: long enough to bring a key to every machine, short enough that nobody forgets the one before. */
const LONGEST_OVERLAP_MS = 7 * DAY_MS;
export const DEFAULT_OVERLAP_MS = DAY_MS;

export class OperatorCreateDto {
  @IsString()
  @Matches(OPERATOR_NAME)
  name!: string;

  @IsIn(OPERATOR_ROLES)
  role!: OperatorRole;

  @Optional()
  @IsDateTime()
  expires_at?: string;
}

export class OperatorUpdateDto {
  @IsIn(OPERATOR_ROLES)
  role!: OperatorRole;
}

export class OperatorRotateDto {
  /** How long the key before still works. */
  @Optional()
  @IsInt()
  @Min(0)
  @Max(LONGEST_OVERLAP_MS)
  overlap_ms?: number;

  /** Of the new key; without it, that of the key before. */
  @Optional()
  @IsDateTime()
  expires_at?: string;
}

export class OperatorListQueryDto extends PageQueryDto {
  @Optional()
  @IsIn(OPERATOR_STATUSES)
  status?: OperatorStatus;
}

export class OperatorRevokeQueryDto {
  @Optional()
  @IsString()
  @MaxLength(512)
  reason?: string;
}
