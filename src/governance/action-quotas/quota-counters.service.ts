import { Injectable } from '@nestjs/common';
import type { Answer } from '../../answers/index.js';
import { type Caller, requireTenantId, scopeAllowed } from '../../auth/index.js';
import {
  fingerprintOf,
  invalidField,
  oneLine,
  percentDecoded,
  percentEncoded,
  QUOTA_WINDOWS,
  Refusal,
  RISK_COUNTER,
  scopePrefixOf,
  TENANT_ID_PATTERN,
} from '../../ledger/index.js';
import {
  Records,
  RedisService,
  runCounterIndexKey,
  type ScriptReply,
  SkippedRecords,
} from '../../redis/index.js';
import {
  DEFAULT_LIMIT,
  type Origin,
  type Page,
  pageEnd,
  placeAfter,
  type Position,
  timeOf,
} from '../../wire/index.js';
import type { QuotaCounterListQueryDto, QuotaCounterResetDto } from './quota-counter.dto.js';

/** ActionQuotaState of cycles-action-kinds-v0.1.26. */
export type QuotaCounter = Answer<'ActionQuotaState'>;

/** A counter as scripts return it. */
interface StoredCounter {
  readonly scope: string;
  readonly window: string;
  /** Begins with `__risk__:` for a risk class. */
  readonly kind: string;
  readonly windowKey: string;
  readonly used: number;
  readonly limit: number;
  readonly policyId?: string;
  readonly lastMs: number;
  readonly expiresMs: number;
}

function quotaCounterOf(stored: StoredCounter): QuotaCounter {
  const { kind, scope, used, limit, policyId } = stored;
  const isRisk = kind.startsWith(`${RISK_COUNTER}:`);
  const window = QUOTA_WINDOWS.find((name) => name === stored.window);
  if (window === undefined) {
    throw new Error(`corrupt action counter: it has the window ${stored.window}`);
  }
  return {
    action_kind: isRisk ? RISK_COUNTER : kind,
    ...(isRisk ? { risk_class: kind.slice(RISK_COUNTER.length + 1) } : {}),
    scope,
    scope_path: scope,
    window,
    window_key: percentDecoded(stored.windowKey),
    used,
    limit,
    remaining: Math.max(0, limit - used),
    ...(policyId === undefined ? {} : { policy_id: policyId }),
    expires_at: timeOf(stored.expiresMs.toString()),
    // A counter that was reset keeps no trace of what it had counted.
    ...(used === 0 ? {} : { last_incremented_at: timeOf(stored.lastMs.toString()) }),
  };
}

/** Counters per run of the script: about half a millisecond of Redis time. */
const COUNTERS_A_RUN = 100;
/** Counters that a page looks at. With few of many matching, it ends before its limit. */
const MAX_LOOKED_AT = 10_000;

type Section = 'calendar' | 'runs';
type Filter = (counter: QuotaCounter) => boolean;

interface PlacedCounter {
  readonly counter: QuotaCounter;
  readonly position: Position;
}

/** What a page asks the script for. */
interface Walk {
  readonly tenantId: string;
  readonly run: string;
  readonly scopePrefix: string;
  readonly sections: readonly Section[];
  /** Of the key. */
  readonly scopeFilter: readonly string[];
  readonly filter: Filter;
}

/** Shows the counters that lua/lib/action_counters.lua keeps. */
@Injectable()
export class QuotaCountersService {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly skipped: SkippedRecords,
  ) {}

  /**
   * Counters of calendar windows come first, then those of runs, each by scope, window and kind. An API key sees its own tenant's inside
   * its scope filter.
   * @throws Refusal INVALID_REQUEST for another query's cursor, or when an operator names no tenant.
   */
  async list(caller: Caller, request: QuotaCounterListQueryDto): Promise<Page<QuotaCounter>> {
    const { cursor, limit = DEFAULT_LIMIT, ...query } = request;
    const tenantId = caller.kind === 'tenant' ? caller.tenantId : requireTenantId(query.tenant_id);
    const scopeFilter = caller.kind === 'tenant' ? caller.scopeFilter : [];
    const walk: Walk = {
      tenantId,
      run: percentEncoded(query.run_id ?? ''),
      scopePrefix: scopePrefixOf(query.scope),
      sections: sectionsOf(query),
      scopeFilter,
      filter: (counter) => matches(counter, query),
    };
    const list = fingerprintOf({
      list: 'quota_counters',
      ...query,
      tenant_id: tenantId,
      scope_filter: scopeFilter,
    });
    const isSection = ({ value }: Position): boolean => walk.sections.some((section) => section === value);
    const after = placeAfter(list, cursor, isSection);
    const { found, next } = await this.read(walk, after, limit);
    const last = found.length > limit ? found[limit - 1]?.position : next;
    return { rows: found.slice(0, limit).map(({ counter }) => counter), ...pageEnd(list, last) };
  }

  /**
   * Sets a counter to zero. Holds stay as they are.
   * @throws Refusal NOT_FOUND if no counter that still counts has these key fields, INVALID_REQUEST for a kind and a risk class that do
   * not go together.
   */
  async reset(
    request: QuotaCounterResetDto,
    origin: Origin,
  ): Promise<{ counter: QuotaCounter; previous_used: number }> {
    requireOneCounter(request);
    const { tenant_id: tenantId, action_kind: actionKind, risk_class: riskClass, window } = request;
    const scope = request.scope.toLowerCase();
    // A bar would take the names of a counter apart elsewhere.
    if (!TENANT_ID_PATTERN.test(tenantId) || scope.includes('|')) {
      throw notFound();
    }
    const windowKey = window === 'per_run' ? percentEncoded(request.window_key) : request.window_key;
    const reply = await this.redis.scripts.call(
      'reset_action_counter',
      { runCounterIndex: runCounterIndexKey(this.records.tagOfTenant(tenantId), tenantId) },
      {
        tenantId,
        scope,
        window,
        windowKey,
        actionKind,
        riskClass: riskClass ?? '',
        reason: oneLine(request.reason),
        ...origin,
      },
    );
    if (reply.status === 'NOT_FOUND') {
      throw notFound();
    }
    const { previousUsed, status: _, ...stored } = reply;
    return { counter: quotaCounterOf({ ...stored, scope, window, windowKey }), previous_used: previousUsed };
  }

  /** Finds up to one counter more than the limit, or where it stopped looking. */
  private async read(
    walk: Walk,
    after: Position | undefined,
    limit: number,
  ): Promise<{ found: PlacedCounter[]; next?: Position }> {
    const found: PlacedCounter[] = [];
    let looked = 0;
    const start = after === undefined ? 0 : walk.sections.findIndex((section) => section === after.value);
    for (const section of walk.sections.slice(start)) {
      let position = section === after?.value ? after.id : '';
      do {
        if (looked >= MAX_LOOKED_AT) {
          return { found, next: { value: section, id: position } };
        }
        const { next = '', counters } = await this.step(walk, section, position);
        for (const { position: id, ...stored } of counters) {
          const counter = scopeAllowed(walk.scopeFilter, stored.scope)
            ? this.skipped.whole('action_counter', stored.kind, () => quotaCounterOf(stored))
            : undefined;
          if (counter !== undefined && walk.filter(counter)) {
            found.push({ counter, position: { value: section, id } });
          }
        }
        looked += COUNTERS_A_RUN;
        position = next;
      } while (position !== '' && found.length <= limit);
      if (found.length > limit) {
        break;
      }
    }
    return { found };
  }

  private step(
    { tenantId, run, scopePrefix }: Walk,
    section: Section,
    after: string,
  ): Promise<ScriptReply<'list_action_counters'>> {
    const tag = this.records.tagOfTenant(tenantId);
    return this.redis.queries.call(
      'list_action_counters',
      { runCounterIndex: runCounterIndexKey(tag, tenantId) },
      { tenantId, section, run, scopePrefix, after, limit: COUNTERS_A_RUN },
    );
  }
}

/** A risk class belongs to its own kind of counter, and to no other. */
function requireOneCounter({ action_kind: kind, risk_class: riskClass }: QuotaCounterResetDto): void {
  if (kind === RISK_COUNTER && riskClass === undefined) {
    throw invalidField('risk_class', `risk_class is required with the action_kind ${RISK_COUNTER}`);
  }
  if (kind !== RISK_COUNTER && (riskClass !== undefined || kind.startsWith(RISK_COUNTER))) {
    throw invalidField('action_kind', `risk_class goes with the action_kind ${RISK_COUNTER} only`);
  }
}

const notFound = (): Refusal => new Refusal('NOT_FOUND', 'there is no such counter now');

function sectionsOf({ window, run_id: run }: QuotaCounterListQueryDto): Section[] {
  const byRun = window === 'per_run';
  return [
    ...(run === undefined && !byRun ? (['calendar'] as const) : []),
    ...(window === undefined || byRun ? (['runs'] as const) : []),
  ];
}

function matches(counter: QuotaCounter, query: QuotaCounterListQueryDto): boolean {
  return (
    (query.action_kind === undefined || counter.action_kind === query.action_kind) &&
    (query.window === undefined || counter.window === query.window) &&
    (query.include_zero === true || counter.used > 0)
  );
}
