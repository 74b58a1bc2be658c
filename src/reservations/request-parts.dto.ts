import { applyDecorators } from '@nestjs/common';
import { ArrayMaxSize, IsArray, IsIn } from 'class-validator';
import { SCOPE_LEVELS, SEGMENT_MAX_LENGTH, SEGMENT_PATTERN, type Unit, UNITS } from '../ledger/index.js';
import {
  IsFreeObject,
  IsInt64,
  IsStringMap,
  Length,
  Matches,
  MaxLength,
  Nested,
  Optional,
  Satisfies,
} from '../wire/index.js';

/** Amount of the protocol: a non-negative int64 in one of the four units. */
export class AmountDto {
  @IsIn(UNITS)
  unit!: Unit;

  @IsInt64({ min: 0 })
  amount!: number | bigint;
}

/** ActionPolicyKeys of cycles-action-kinds-v0.1.26. */
export class ActionPolicyKeysDto {
  @Optional(MaxLength(253))
  host?: string;

  @Optional(MaxLength(253))
  recipient_domain?: string;

  @Optional(MaxLength(128))
  resource_type?: string;

  @Optional(MaxLength(512))
  path_prefix?: string;

  @Optional(IsStringMap({ maxEntries: 8, maxValueLength: 256 }))
  custom?: Record<string, string>;
}

/** Action of the protocol. */
export class ActionDto {
  @Length(1, 64)
  kind!: string;

  @Length(1, 256)
  @Matches(/\S/)
  name!: string;

  @Optional()
  @IsArray()
  @ArrayMaxSize(10)
  @MaxLength(64, { each: true })
  tags?: string[];

  @Optional(Nested(() => ActionPolicyKeysDto))
  policy_keys?: ActionPolicyKeysDto;
}

/** Validates the value of one level of the hierarchy. */
export function Level(): PropertyDecorator {
  return applyDecorators(Optional(), Length(1, SEGMENT_MAX_LENGTH), Matches(SEGMENT_PATTERN));
}

/** The levels of the hierarchy, as a subject or a query for balances names them. */
export class SubjectLevelsDto {
  @Level()
  tenant?: string;

  @Level()
  workspace?: string;

  @Level()
  app?: string;

  @Level()
  workflow?: string;

  @Level()
  agent?: string;

  @Level()
  toolset?: string;
}

/** Subject of the protocol. Dimensions do not affect the derived scopes. */
export class SubjectDto extends SubjectLevelsDto {
  @Optional(IsStringMap({ maxEntries: 16, maxValueLength: 256 }))
  dimensions?: Record<string, string>;
}

/** IdempotencyKey of the protocol. */
export const IDEMPOTENCY_KEY_MAX_LENGTH = 256;

function hasLevel(subject: unknown): boolean {
  return typeof subject === 'object' && subject !== null && SCOPE_LEVELS.some((level) => level in subject);
}

/** What reserve, decide and direct debit have in common: who pays, and for what. */
export class AdmissionDto {
  @Length(1, IDEMPOTENCY_KEY_MAX_LENGTH)
  idempotency_key!: string;

  @Nested(() => SubjectDto)
  @Satisfies(`a subject that names at least one of ${SCOPE_LEVELS.join(', ')}`, hasLevel)
  subject!: SubjectDto;

  @Nested(() => ActionDto)
  action!: ActionDto;

  @Optional(IsFreeObject())
  metadata?: Record<string, unknown>;
}
