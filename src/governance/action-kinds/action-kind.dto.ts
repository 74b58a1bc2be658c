import { IsBoolean, IsIn, IsInt, IsString, Max, Min } from 'class-validator';
import { RISK_CLASSES, type RiskClass } from '../../ledger/index.js';
import { MAX_LIMIT, MaxLength, Optional } from '../../wire/index.js';

/** The parameters of listActionKinds of cycles-action-kinds-v0.1.26. */
export class ActionKindListQueryDto {
  @Optional()
  @IsIn(RISK_CLASSES)
  risk_class?: RiskClass;

  /** Whether kinds that are deprecated are listed as well. */
  @Optional()
  @IsBoolean()
  deprecated?: boolean;

  @Optional()
  @IsString()
  @MaxLength(2048)
  cursor?: string;

  @Optional()
  @IsInt()
  @Min(1)
  @Max(MAX_LIMIT)
  limit?: number;
}
