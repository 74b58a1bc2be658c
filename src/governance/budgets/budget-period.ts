import { invalidField, Refusal } from '../../ledger/index.js';
import { fieldOf, type Fields, instantMs, timeOf } from '../../wire/index.js';
import { ROLLOVER_POLICIES, type RolloverPolicy } from './budget.dto.js';

/** The members of BudgetLedger that describe its period. A budget without a period has only the policy. */
export interface BudgetPeriod {
  readonly rollover_policy: RolloverPolicy;
  readonly period_start?: string;
  readonly period_end?: string;
}

/** @throws Error when the record is corrupt. */
export function periodOf(fields: Fields, name: string): BudgetPeriod {
  const stored = fields.get('rollover_policy') ?? 'NONE';
  const policy = ROLLOVER_POLICIES.find((known) => known === stored);
  if (policy === undefined) {
    throw new Error(`corrupt budget record of ${name}: its rollover_policy is ${stored}`);
  }
  return {
    rollover_policy: policy,
    ...(fields.has('period_end') && {
      period_start: timeOf(fieldOf(fields, 'period_start')),
      period_end: timeOf(fieldOf(fields, 'period_end')),
    }),
  };
}

interface RequestedPeriod {
  readonly period_start?: string;
  readonly period_end?: string;
}

/**
 * The instants of a requested period in ms, empty where absent, as the scripts take them.
 * @throws Refusal INVALID_REQUEST when it begins before 1970 or does not end after it begins.
 */
export function periodArguments({ period_start: start, period_end: end }: RequestedPeriod): {
  readonly periodStart: string;
  readonly periodEnd: string;
} {
  const [startMs, endMs] = [instantMs(start), instantMs(end)];
  if ((startMs ?? 0) < 0) {
    throw invalidField('period_start', 'period_start must not be before 1970');
  }
  if (endMs !== undefined && endMs <= (startMs ?? 0)) {
    throw invalidField('period_end', 'period_end must be after period_start');
  }
  return { periodStart: startMs?.toString() ?? '', periodEnd: endMs?.toString() ?? '' };
}

/** The refusal of a period that only Redis' clock can judge. */
export function periodRefusal(reason: 'ENDED' | 'NOT_BEGUN' | 'TOO_SHORT' | 'NO_END' | 'RECURRING'): Refusal {
  switch (reason) {
    case 'ENDED':
      return invalidField('period_end', 'period_end must be in the future');
    case 'NOT_BEGUN':
      return invalidField('period_start', 'period_start must not be in the future');
    case 'TOO_SHORT':
      return invalidField('period_end', 'a period must last at least a minute');
    case 'RECURRING':
      return invalidField('period_end', "the budget's periods follow its recurrence; change that instead");
    case 'NO_END':
      return invalidField('period_end', 'period_start needs a period_end');
  }
}
