import { Inject, Injectable } from '@nestjs/common';
import { BulkActions, type BulkRun, type Changed, type RowFailure } from '../../bulk/index.js';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { Records, type ScriptReply } from '../../redis/index.js';
import type { Origin } from '../../wire/index.js';
import {
  budgetOfRow,
  FAILURES,
  idOf,
  type MatchedBudget,
  matchBudgets,
} from '../budgets/budget-bulk-action.service.js';
import { requireUtilizationRange } from '../budgets/budget-filter.js';
import { creditTexts } from './credit.js';
import type { CreditBulkDto } from './credit.dto.js';
import { CREDIT_ENDED, CreditsService, TOO_MANY_CREDITS } from './credits.service.js';

type Failed = Exclude<ScriptReply<'grant_credit'>['status'], 'GRANTED'>;

export const GRANT_FAILURES: Readonly<Record<Failed, RowFailure>> = {
  ...FAILURES,
  TOO_MANY_CREDITS: { error_code: 'INVALID_REQUEST', message: TOO_MANY_CREDITS },
  CREDIT_ENDED: { error_code: 'INVALID_REQUEST', message: CREDIT_ENDED },
  IDEMPOTENCY_MISMATCH: {
    error_code: 'IDEMPOTENCY_MISMATCH',
    message: 'the budget has another credit of this key',
  },
};

/** POST /ops/budgets/credits/bulk. */
@Injectable()
export class CreditsBulkService {
  constructor(
    private readonly records: Records,
    private readonly bulk: BulkActions,
    private readonly credits: CreditsService,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  /**
   * Gives a credit to every budget of one tenant that the filter matches.
   * @returns the JSON of a CreditBulkResponse
   * @throws Refusal INVALID_REQUEST, TENANT_NOT_FOUND, COUNT_MISMATCH, IDEMPOTENCY_MISMATCH; TooManyMatched; StoreUnavailable, after
   * which a retry continues.
   */
  async apply(request: CreditBulkDto, origin: Origin): Promise<string> {
    const { filter, credit } = request;
    requireUtilizationRange(filter);
    const { amount, name, effectiveAt, expiresAt } = creditTexts(credit);
    return this.bulk.apply({
      kind: 'credits',
      request: { ...request, action: 'GRANT_CREDIT' },
      origin,
      auditedActor: origin.actor,
      owner: filter.tenant_id,
      details: {
        unit: credit.amount.unit,
        amount,
        name,
        effective_at: String(effectiveAt),
        expires_at: String(expiresAt),
      },
      match: (found) => matchBudgets(this.records, filter, found),
      change: (row, run) => this.grant(request, budgetOfRow(row), run),
      idOf,
    });
  }

  /** The request of the action's first attempt names the grant, so an attempt that goes on grants nothing again. */
  private async grant(
    { filter, credit }: CreditBulkDto,
    { scope, unit }: MatchedBudget,
    run: BulkRun,
  ): Promise<Changed> {
    if (unit !== credit.amount.unit) {
      const message = `the budget is in ${unit}, and the amount in ${credit.amount.unit}`;
      return { failed: { error_code: 'INVALID_TRANSITION', message } };
    }
    const { status } = await this.credits.tryGrant(
      {
        tenantId: filter.tenant_id,
        scope,
        unit,
        terms: credit,
        idempotencyKey: `bulk:${run.requestId}`,
        fingerprint: run.requestId,
        keepMs: Math.max(this.config.idempotencyTtlMs, run.keepMs),
      },
      run,
    );
    return status === 'GRANTED' ? 'succeeded' : { failed: GRANT_FAILURES[status] };
  }
}
