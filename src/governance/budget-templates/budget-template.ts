import type { Answer } from '../../answers/index.js';
import { parseAmount, parseScopePath, Refusal, type Unit } from '../../ledger/index.js';
import { fieldOf, type Fields, optionalText, readJson, timeOf } from '../../wire/index.js';
import { recurrenceMembers } from '../budgets/recurrence.dto.js';
import { parseRecurrence } from '../budgets/recurrence.js';

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

/** @throws Error when the record is corrupt. */
export function templateOf(fields: Fields, templateId: string): BudgetTemplate {
  const unit = fieldOf(fields, 'unit') as Unit;
  const rules = rulesOf(fields);
  const rule = parseRecurrence(rules.recurrence);
  const limits = fields.get('window_limits')?.split(' ') ?? [];
  const periodMs = fields.get('period_ms');
  const metadata = fields.get('metadata');
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
    ...(metadata !== undefined && { metadata: readJson(metadata) as BudgetTemplate['metadata'] }),
    created_at: timeOf(fieldOf(fields, 'created_at')),
    updated_at: timeOf(fieldOf(fields, 'updated_at')),
  };
}

const refuse = (message: string): Refusal =>
  new Refusal('INVALID_REQUEST', message, { field: 'scope_pattern' });

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
