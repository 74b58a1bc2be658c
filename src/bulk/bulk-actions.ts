import { hash } from 'node:crypto';
import { Inject, Injectable, Module } from '@nestjs/common';
import { fingerprintOf, invalidField, Refusal, TooManyMatched } from '../ledger/index.js';
import { bulkActionKey, RedisService, StoreUnavailable, SYSTEM_OWNER, tagOfTenant } from '../redis/index.js';
import { LOGGER, type Logger, MetricsRegistry, type MetricsTable } from '../telemetry/index.js';
import { IsInt, Length, Optional, type Origin, stringifyJson } from '../wire/index.js';

/** The members that the requests of all bulk actions have in common, beside `filter` and `action`. */
export class BulkRequestDto {
  @Optional(IsInt({ min: 0 }))
  expected_count?: number;

  @Length(1, 128)
  idempotency_key!: string;
}

/** The most rows that one action changes. */
const LIMIT = 500;
/** How long a retry gets the first response. */
const KEEP_MS = 15 * 60_000;

/** The operations: what the audit log calls each, and what its rows are. */
const KINDS = {
  tenants: { operation: 'bulkActionTenants', resourceType: 'tenant', rows: 'tenants' },
  budgets: { operation: 'bulkActionBudgets', resourceType: 'budget', rows: 'budgets' },
  templates: { operation: 'applyBudgetTemplate', resourceType: 'budget', rows: 'budgets' },
  credits: { operation: 'grantCredits', resourceType: 'budget', rows: 'budgets' },
  webhooks: { operation: 'bulkActionWebhooks', resourceType: 'webhook', rows: 'subscriptions' },
} as const;

type BulkRequest = BulkRequestDto & { readonly action: string; readonly filter: object };

export interface RowFailure {
  readonly error_code: string;
  readonly message: string;
}

/** The outcome of a row. */
export type Changed = 'succeeded' | { readonly skipped: string } | { readonly failed: RowFailure };

/** BulkActionRowOutcome of cycles-governance-admin-v0.1.25. */
type RowOutcome = { readonly id: string } & Partial<RowFailure & { readonly reason: string }>;

interface Outcomes {
  readonly succeeded: RowOutcome[];
  readonly failed: RowOutcome[];
  readonly skipped: RowOutcome[];
}

/** The action under an idempotency key, begun by this request or by an earlier one. Row scripts take all of it. */
export interface BulkRun extends Origin {
  readonly correlationId: string;
  /** How long rows remember that they were changed. */
  readonly keepMs: number;
}

export interface BulkAction {
  readonly kind: keyof typeof KINDS;
  readonly request: BulkRequest;
  readonly origin: Origin;
  /** The actor of the audit row. */
  readonly auditedActor: string;
  /** The tenant that the audit row is about, or `SYSTEM_OWNER`. */
  readonly owner: string;
  /** Further details for the audit row. Empty ones are left out. */
  readonly details?: Readonly<Record<string, string>>;
  /** Calls `found` for each row that the filter matches, with a text that identifies it and has no comma. */
  match(found: (row: string) => void): Promise<void>;
  /** Changes one row. An error fails this row alone, unless the store is unavailable. */
  change(row: string, run: BulkRun): Promise<Changed>;
  /** The id of a row in the response, if it is not the row itself. */
  idOf?(row: string): string;
  /** Called after the last row, with the rows that were changed. Returns those that failed after all. */
  complete?(rows: readonly string[]): Promise<ReadonlyMap<string, RowFailure>>;
}

interface Begun {
  readonly fingerprint: string;
  /** The record in the partition of the audit row. */
  readonly key: string;
  readonly run: BulkRun;
  readonly rows: readonly string[];
  readonly isResumed: boolean;
}

/** @throws Refusal INVALID_REQUEST if no part of the filter selects anything. */
export function requireFilter(filter: object, everything: string): void {
  if (!Object.values(filter).some((part) => part !== undefined && part !== '')) {
    throw invalidField('filter', `filter must not be empty, so that nobody changes ${everything} by mistake`);
  }
}

const BULK_METRICS = {
  actions: {
    name: 'holdfast_bulk_actions_total',
    help: 'Bulk actions: applied, resumed after an interruption, or replayed to a repeated request.',
    labels: ['operation', 'outcome'],
  },
  rows: {
    name: 'holdfast_bulk_action_rows_total',
    help: 'Rows of bulk actions: succeeded, failed or skipped.',
    labels: ['operation', 'outcome'],
  },
} as const satisfies MetricsTable;

/**
 * Applies one action to everything that a filter matches. Before the first change, the list of rows is stored under the
 * idempotency key, and each row records that it was changed. So the same request can be retried after any failure: it continues
 * where the previous one ended, and nothing is applied twice.
 */
@Injectable()
export class BulkActions {
  private readonly counts = this.metrics.of(BULK_METRICS);

  constructor(
    private readonly redis: RedisService,
    @Inject(LOGGER) private readonly logger: Logger,
    private readonly metrics: MetricsRegistry,
  ) {}

  /**
   * @returns the JSON of the response, the same for every retry within 15 minutes
   * @throws Refusal COUNT_MISMATCH, IDEMPOTENCY_MISMATCH; TooManyMatched; StoreUnavailable, after which a retry continues; and
   * what `match` throws.
   */
  async apply(action: BulkAction): Promise<string> {
    const startedAt = performance.now();
    const { operation } = KINDS[action.kind];
    const begun = await this.begin(action);
    if (typeof begun === 'string') {
      this.counts.actions.inc({ operation, outcome: 'replayed' });
      return begun;
    }
    const outcomes = await this.changeAll(action, begun);
    const ended = await this.end(action, begun, outcomes, Math.round(performance.now() - startedAt));
    if (ended.answer === 'replay') {
      this.counts.actions.inc({ operation, outcome: 'replayed' });
      return ended.response;
    }
    this.counts.actions.inc({ operation, outcome: begun.isResumed ? 'resumed' : 'applied' });
    for (const outcome of ['succeeded', 'failed', 'skipped'] as const) {
      this.counts.rows.inc({ operation, outcome }, outcomes[outcome].length);
    }
    return ended.response;
  }

  /** Begins or resumes the action. @returns the stored response if the action has already ended */
  private async begin(action: BulkAction): Promise<Begun | string> {
    const { kind, request, owner } = action;
    const { idempotency_key: idempotencyKey, ...rest } = request;
    const name = `${kind}:${hash('sha256', idempotencyKey, 'base64url')}`;
    // Claims of one operation are in one partition, so that a key is unique whatever the action is about.
    const claim = keyIn(SYSTEM_OWNER, this.redis.partitions, name);
    const key = keyIn(owner, this.redis.partitions, name);
    const fingerprint = fingerprintOf(rest);
    const found = await this.beginAt(claim, fingerprint, action, undefined);
    const begun = found ?? (await this.beginAt(claim, fingerprint, action, await this.matched(action)));
    if (begun === undefined || typeof begun === 'string') {
      return begun ?? '';
    }
    const kept = key === claim ? undefined : await this.beginAt(key, fingerprint, action, undefined);
    return typeof kept === 'string' ? kept : { ...begun, fingerprint, key, isResumed: found !== undefined };
  }

  /** @param rows undefined to find only what was begun */
  private async beginAt(
    bulk: string,
    fingerprint: string,
    { kind, request, origin }: BulkAction,
    rows: readonly string[] | undefined,
  ): Promise<Pick<Begun, 'run' | 'rows'> | string | undefined> {
    const { requestId, trace } = origin;
    const { resourceType } = KINDS[kind];
    const reply = await this.redis.scripts.call(
      'begin_bulk_action',
      { bulk },
      {
        fingerprint,
        keepMs: KEEP_MS,
        correlationId: `${resourceType}_bulk_action:${request.action.toLowerCase()}:${requestId}`,
        requestId,
        trace,
        rows: rows?.join(',') ?? '',
        claims: rows === undefined ? 0 : 1,
      },
    );
    switch (reply.status) {
      case 'UNKNOWN':
        return undefined;
      case 'ENDED':
        return reply.response;
      case 'IDEMPOTENCY_MISMATCH':
        throw new Refusal('IDEMPOTENCY_MISMATCH', 'the idempotency key was used with another bulk action');
      case 'BEGUN':
        return {
          rows: reply.rows?.split(',') ?? [],
          run: {
            ...origin,
            requestId: reply.requestId,
            trace: reply.trace ?? '',
            correlationId: reply.correlationId,
            keepMs: KEEP_MS,
          },
        };
    }
  }

  private async matched(action: BulkAction): Promise<string[]> {
    const { rows: noun } = KINDS[action.kind];
    const { expected_count: expected } = action.request;
    const rows: string[] = [];
    let total = 0;
    await action.match((row) => {
      total += 1;
      if (total <= LIMIT) {
        rows.push(row);
      }
    });
    if (expected !== undefined && expected !== total) {
      throw new Refusal(
        'COUNT_MISMATCH',
        `the filter matches ${total} ${noun}, not ${expected}; nothing was changed`,
        { total_matched: total, expected_count: expected },
      );
    }
    if (total > LIMIT) {
      throw new TooManyMatched(total, LIMIT);
    }
    return rows.sort();
  }

  private async changeAll(action: BulkAction, { rows, run }: Begun): Promise<Outcomes> {
    const changes = new Map<string, Changed>();
    for (const row of rows) {
      changes.set(row, await this.changeOne(action, row, run));
    }
    const succeeded = rows.filter((row) => changes.get(row) === 'succeeded');
    const incomplete = (await action.complete?.(succeeded)) ?? new Map<string, RowFailure>();
    for (const [row, failed] of incomplete) {
      changes.set(row, { failed });
    }
    const outcomes: Outcomes = { succeeded: [], failed: [], skipped: [] };
    for (const [row, change] of changes) {
      const id = action.idOf?.(row) ?? row;
      if (change === 'succeeded') {
        outcomes.succeeded.push({ id });
      } else if ('skipped' in change) {
        outcomes.skipped.push({ id, reason: change.skipped });
      } else {
        outcomes.failed.push({ id, ...change.failed });
      }
    }
    return outcomes;
  }

  /** The failure of one row does not affect the others. An unavailable store ends the request. */
  private async changeOne(action: BulkAction, row: string, run: BulkRun): Promise<Changed> {
    try {
      return await action.change(row, run);
    } catch (error) {
      if (error instanceof StoreUnavailable) {
        throw error;
      }
      const { operation } = KINDS[action.kind];
      this.logger.error({ err: error, operation, row }, 'a bulk action could not change a row');
      return { failed: FAILED_ROW };
    }
  }

  private async end(
    { kind, request, owner, auditedActor, details = {} }: BulkAction,
    { fingerprint, key, run, rows }: Begun,
    outcomes: Outcomes,
    durationMs: number,
  ): Promise<{ answer: 'fresh' | 'replay'; response: string }> {
    const { operation, resourceType } = KINDS[kind];
    const audited = {
      action: request.action,
      ...details,
      filter: stringifyJson(request.filter),
      succeeded_ids: stringifyJson(outcomes.succeeded.map(({ id }) => id)),
      failed_rows: stringifyJson(outcomes.failed),
      skipped_rows: stringifyJson(outcomes.skipped),
      duration_ms: durationMs,
    };
    return this.redis.scripts.call(
      'end_bulk_action',
      { bulk: key },
      {
        ...run,
        fingerprint,
        response: stringifyJson({
          action: request.action,
          total_matched: rows.length,
          ...outcomes,
          idempotency_key: request.idempotency_key,
        }),
        operation,
        resourceType,
        owner,
        actor: auditedActor,
        rest: Object.entries(audited).flat(),
      },
    );
  }
}

/** A row whose record cannot be read or changed. The log has the reason. */
export const FAILED_ROW: RowFailure = {
  error_code: 'INTERNAL_ERROR',
  message: 'the row could not be changed; the log of Holdfast says why',
};

function keyIn(owner: string, partitions: number, name: string): string {
  return bulkActionKey(tagOfTenant(owner, partitions), name);
}

@Module({ providers: [BulkActions], exports: [BulkActions] })
export class BulkActionsModule {}
