import { applyDecorators } from '@nestjs/common';
import { ArrayMaxSize, IsArray, IsIn, IsString, Matches } from 'class-validator';
import { IsInt64, IsStringMap, Length, MaxLength, Optional } from '../http/index.js';
import { SEGMENT_MAX_LENGTH, SEGMENT_PATTERN, UNITS, type Unit } from '../ledger/index.js';

/** Amount of the protocol: a non-negative int64 in one of the four units. */
export class AmountDto {
  @IsIn(UNITS)
  unit!: Unit;

  @IsInt64({ min: 0 })
  amount!: number | bigint;
}

/** Action of the protocol: what is about to be done. */
export class ActionDto {
  @IsString()
  @Length(1, 64)
  kind!: string;

  @IsString()
  @Length(1, 256)
  @Matches(/\S/)
  name!: string;

  @Optional()
  @IsArray()
  @ArrayMaxSize(10)
  @IsString({ each: true })
  @MaxLength(64, { each: true })
  tags?: string[];
}

/** The value of one level of the hierarchy. */
function Level(): PropertyDecorator {
  return applyDecorators(Optional(), IsString(), Length(1, SEGMENT_MAX_LENGTH), Matches(SEGMENT_PATTERN));
}

/** The levels by which a subject, or a question about balances, names a place in the hierarchy. */
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

/** Subject of the protocol: the levels of the hierarchy, and dimensions that never change the derived scopes. */
export class SubjectDto extends SubjectLevelsDto {
  @Optional()
  @IsStringMap({ maxEntries: 16, maxValueLength: 256 })
  dimensions?: Record<string, string>;
}

/** IdempotencyKey of the protocol. */
export const IDEMPOTENCY_KEY_MAX_LENGTH = 256;
