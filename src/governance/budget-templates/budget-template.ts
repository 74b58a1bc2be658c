import type { Answer } from '../../answers/index.js';
import {
  INT64_MAX,
  invalidField,
  parseAmount,
  parseScopePath,
  Refusal,
  type Unit,
} from '../../ledger/index.js';
import { fieldOf, type Fields, optionalText, readJson, timeOf } from '../../wire/index.js';
import { requireUnit } from '../budgets/budget.js';
import { recurrenceMembers } from '../budgets/recurrence.dto.js';
import { parseRecurrence } from '../budgets/recurrence.js';
import { creditTexts } from '../credits/credit.js';
import type { TemplateCreditDto } from '../credits/credit.dto.js';

/** A template as /ops/budget-templates shows it. A rule is absent if its time zone is not known any more. */
export type BudgetTemplate = Answer<'BudgetTemplate'>;

/** The rules of a template's record: that of its periods, or nothing, then those of its windows. */
export function rulesOf(fields: Fields): {
  readonly recurrence: string;
  readonly windows: readonly string[];
} {
  return {
    recurrence: fields.get('recurrence') ?? '',
    windows: (fields.get('window_rules') ?? '').split('|').filter((rule) => rule !== ''),
  };
}

/** Between credits in a template's record, and between the texts of one. */
const [CREDIT_END, TEXT_END] = ['\x1e', '\x1f'];

/**
 * The credits of a template as its record has them.
 * @throws Refusal INVALID_REQUEST, UNIT_MISMATCH
 */
export function creditsText(
  credits: readonly TemplateCreditDto[],
  unit: Unit,
  allocated: number | bigint,
): string {
  let total = BigInt(allocated);
  const names = new Set<string>();
  const texts = credits.map((credit, index) => {
    requireUnit(unit, `credits[${index}].amount`, credit.amount);
    const { amount, name, category, priority, notifyBeforeMs, metadata } = creditTexts(
      credit,
      `credits[${index}].`,
    );
    total += BigInt(amount);
    names.add(name);
    return [amount, credit.lasts_ms, name, category, priority, notifyBeforeMs, metadata].join(TEXT_END);
  });
  if (names.size < credits.length) {
    throw invalidField('credits', 'each credit needs a name of its own');
  }
  if (total > INT64_MAX) {
    throw invalidField('credits', 'allocated and the credits together would overflow int64');
  }
  return texts.join(CREDIT_END);
}

function creditsOf(text: string, unit: Unit): NonNullable<BudgetTemplate['credits']> {
  return text.split(CREDIT_END).map((one) => {
    const [amount, lasts, name, category, priority, notice, metadata] = one.split(TEXT_END);
    return {
      name: String(name),
      amount: { unit, amount: parseAmount(amount) },
      lasts_ms: Number(lasts),
      priority: Number(priority),
      ...(category !== '' && { category }),
      ...(notice !== '' && { notify_before_ms: Number(notice) }),
      ...(metadata !== '' && { metadata: readJson(String(metadata)) as BudgetTemplate['metadata'] }),
    };
  });
}

/** @throws Error when the record is corrupt. */
export function templateOf(fields: Fields, templateId: string): BudgetTemplate {
  const unit = fieldOf(fields, 'unit') as Unit;
  const rules = rulesOf(fields);
  const rule = parseRecurrence(rules.recurrence);
  const limits = fields.get('window_limits')?.split(' ') ?? [];
  const periodMs = fields.get('period_ms');
  const metadata = fields.get('metadata');
  const credits = fields.get('credits');
  return {
    template_id: templateId,
    tenant_id: fieldOf(fields, 'tenant_id'),
    scope_pattern: fieldOf(fields, 'scope_pattern'),
    unit,
    allocated: { unit, amount: parseAmount(fieldOf(fields, 'allocated')) },
    overdraft_limit: { unit, amount: parseAmount(fieldOf(fields, 'overdraft_limit')) },
    ...optionalText(fields, 'commit_overage_policy'),
    rollover_policy: fields.get('rollover_policy') ?? 'NONE',
    ...(periodMs !== undefined && { period_ms: Number(periodMs) }),
    ...(rule !== undefined && { recurrence: recurrenceMembers(rule) }),
    ...(limits.length > 0 && {
      windows: limits.map((text, index) => {
        const [name = '', limit] = text.split(',');
        const windowRule = parseRecurrence(rules.windows[index] ?? '');
        return {
          name,
          limit: { unit, amount: parseAmount(limit) },
          ...(windowRule !== undefined && recurrenceMembers(windowRule)),
        };
      }),
    }),
    ...(credits !== undefined && { credits: creditsOf(credits, unit) }),
    ...(metadata !== undefined && { metadata: readJson(metadata) as BudgetTemplate['metadata'] }),
    created_at: timeOf(fieldOf(fields, 'created_at')),
    updated_at: timeOf(fieldOf(fields, 'updated_at')),
  };
}

const refuse = (message: string): Refusal => invalidField('scope_pattern', message);

/**
 * A pattern in canonical form: a scope of the tenant, in whose last segments `*` may stand for any value.
 * @throws Refusal INVALID_REQUEST
 */
export function parsePattern(text: string, tenantId: string): string {
  const pattern = text.toLowerCase();
  const [tenant, ...segments] = pattern.split('/');
  const open = segments.map((segment) => segment.endsWith(':*'));
  try {
    parseScopePath([tenant, ...segments.map((segment) => segment.replace(/:\*$/, ':x'))].join('/'));
  } catch (error) {
    if (error instanceof Refusal) {
      throw refuse(`scope_pattern must be a scope, whose last values may be '*': ${error.message}`);
    }
    throw error;
  }
  if (open.includes(true) && open.lastIndexOf(false) > open.indexOf(true)) {
    throw refuse("scope_pattern has a value after '*'; only its last segments may be open");
  }
  if (tenant !== `tenant:${tenantId}`) {
    throw refuse(`scope_pattern must start with tenant:${tenantId}, the tenant that tenant_id names`);
  }
  return pattern;
}

/** Whether a template with this pattern makes the budget of a scope: see lua/ledger/lib/budget_templates.lua. */
export function matchesPattern(scope: string, pattern: string): boolean {
  const [values, segments] = [scope.split('/'), pattern.split('/')];
  return (
    values.length === segments.length &&
    segments.every((segment, index) => {
      const value = values[index] as string;
      return segment.endsWith(':*') ? value.startsWith(segment.slice(0, -1)) : value === segment;
    })
  );
}
