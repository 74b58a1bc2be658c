import { createHash } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { IsBoolean, IsIn } from 'class-validator';
import {
  type ActionKind,
  BUILT_IN_KINDS,
  builtInKind,
  Refusal,
  REGISTRY_VERSION,
  RISK_CLASSES,
  type RiskClass,
} from '../../ledger/index.js';
import { MAX_LIMIT, Optional, type Page, PageCursor, PageLimit, RecordSelection } from '../../wire/index.js';

/** The parameters of listActionKinds of cycles-action-kinds-v0.1.26. */
export class ActionKindListQueryDto {
  @Optional(IsIn(RISK_CLASSES))
  risk_class?: RiskClass;

  /** Whether kinds that are deprecated are listed as well. */
  @Optional(IsBoolean())
  deprecated?: boolean;

  @PageCursor()
  cursor?: string;

  @PageLimit(MAX_LIMIT)
  limit?: number;
}

/** Of the whole registry, which only another version of Holdfast changes. */
const REGISTRY_HASH = createHash('sha256').update(JSON.stringify(BUILT_IN_KINDS)).digest('hex').slice(0, 32);

/** The public registry of action kinds. It has no kinds of operators. */
@Injectable()
export class ActionKindsService {
  readonly version = REGISTRY_VERSION;
  /** A strong entity tag for every answer about the registry. */
  readonly entityTag = `"${REGISTRY_HASH}"`;

  /**
   * A page in the order of the registry, which has no deprecated kind to leave out.
   * @throws Refusal INVALID_REQUEST for another query's cursor.
   */
  list({ cursor, limit, ...query }: ActionKindListQueryDto): Page<ActionKind> {
    const selection = new RecordSelection<readonly [kind: ActionKind, place: number]>({
      query: { list: 'action_kinds', version: this.version, ...query },
      order: { sortBy: 'place', direction: 'asc' },
      cursor,
      limit,
      valueOf: ([, place]) => place,
      idOf: ([{ kind }]) => kind,
    });
    for (const [place, kind] of BUILT_IN_KINDS.entries()) {
      if (query.risk_class === undefined || kind.risk_class === query.risk_class) {
        selection.offer([kind, place]);
      }
    }
    const { rows, ...rest } = selection.page();
    return { rows: rows.map(([kind]) => kind), ...rest };
  }

  /** @throws Refusal NOT_FOUND unless the registry has exactly this kind. */
  get(kind: string): ActionKind {
    const found = builtInKind(kind);
    if (found === undefined) {
      throw new Refusal('NOT_FOUND', 'the registry has no such action kind');
    }
    return found;
  }
}
