import { IsBoolean, IsIn } from 'class-validator';
import { RISK_CLASSES, type RiskClass } from '../../ledger/index.js';
import { MAX_LIMIT, Optional, PageCursor, PageLimit } from '../../wire/index.js';

/** The parameters of listActionKinds of cycles-action-kinds-v0.1.26. */
export class ActionKindListQueryDto {
  @Optional()
  @IsIn(RISK_CLASSES)
  risk_class?: RiskClass;

  /** Whether kinds that are deprecated are listed as well. */
  @Optional()
  @IsBoolean()
  deprecated?: boolean;

  @PageCursor()
  cursor?: string;

  @PageLimit(MAX_LIMIT)
  limit?: number;
}
