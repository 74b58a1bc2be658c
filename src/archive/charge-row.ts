import { deriveScopes, SCOPE_LEVELS, type SubjectLevels } from '../ledger/index.js';
import { FIELD } from '../redis/index.js';
import { type Fields, readJson, stringifyJson } from '../wire/index.js';
import { CHARGE_COLUMNS } from './charge-columns.js';
import { type EntryId, msOf } from './entry-chain.js';
import type { Cell } from './parquet-tasks.js';

type ChargeColumn = (typeof CHARGE_COLUMNS)[number]['name'];
type Charge = Partial<Record<ChargeColumn, Cell | undefined>>;

/** Where entries come from: the partition, and the epoch of the archive. */
export interface RowsPlace {
  readonly number: number;
  readonly epoch: number;
}

const INT64_MAX = (1n << 63n) - 1n;
const AMOUNT = /^\d{1,19}$/;

/**
 * The row of an entry of the journal, in the order of CHARGE_COLUMNS.
 * @param fields what lua/archive/lib/charge_fields.lua returns
 */
export function chargeRow({ number: partition, epoch }: RowsPlace, entry: EntryId, fields: Fields): Cell[] {
  const isDebit = fields.has('event');
  const charge: Charge = {
    partition,
    entry,
    recorded_at: msOf(entry),
    epoch,
    source: isDebit ? 'DIRECT_DEBIT' : fields.has('mended') ? 'CORRECTION' : 'RESERVATION',
    charged: amountOf(fields.get(FIELD.charged)),
    debt: amountOf(fields.get('debt')) ?? '0',
    request_id: fields.get('rq'),
    trace_id: fields.get('tr')?.slice(0, 32),
    ...subjectOf(fields),
    ...(isDebit ? debitOf(entry, fields) : reservationOf(fields)),
  };
  return CHARGE_COLUMNS.map(({ name }) => charge[name] ?? null);
}

function reservationOf(fields: Fields): Charge {
  const state = fields.get(FIELD.state);
  const charged = fields.get(FIELD.charged);
  return {
    record_id: fields.get('id'),
    state,
    ended_at: instantOf(fields.get(FIELD.ended_at)),
    created_at: instantOf(fields.get(FIELD.created_at)),
    unit: fields.get(FIELD.unit),
    reserved: amountOf(fields.get(FIELD.amount)),
    actual: amountOf(fields.get('actual') ?? (state === 'COMMITTED' ? charged : undefined)),
    overage_policy: fields.get(FIELD.overage_policy),
    commit_metadata: fields.get(FIELD.commit_metadata),
    ended_by: fields.get(FIELD.ended_by),
    reason: fields.get(FIELD.release_reason),
    ...metricsOf(fields.get(FIELD.commit_metrics)),
  };
}

/** A debit's event has most of it under its own names: lua/ledger/direct_debit.lua. */
function debitOf(entry: EntryId, fields: Fields): Charge {
  const ended = instantOf(fields.get('event')?.split('-')[0]) ?? msOf(entry);
  return {
    record_id: fields.get('event_id'),
    state: 'APPLIED',
    ended_at: ended,
    created_at: ended,
    unit: fields.get('unit'),
    reserved: '0',
    actual: amountOf(fields.get('actual_amount') ?? fields.get(FIELD.charged)),
    overage_policy: fields.get('overage_policy'),
    ended_by: fields.get(FIELD.key_id),
  };
}

function subjectOf(fields: Fields): Charge {
  const tenant = fields.get(FIELD.tenant);
  const levels: SubjectLevels = {};
  for (const level of SCOPE_LEVELS) {
    const value = fields.get(FIELD[level]);
    if (level !== 'tenant' && value !== undefined) {
      levels[level] = value.toLowerCase();
    }
  }
  return {
    ...levels,
    tenant,
    scope: tenant === undefined ? undefined : deriveScopes(levels, tenant).at(-1),
    scope_mask: fields.get(FIELD.scope_mask),
    action_kind: fields.get(FIELD.action_kind),
    action_name: fields.get(FIELD.action_name),
    action_tags: fields.get(FIELD.action_tags),
    dimensions: fields.get(FIELD.dimensions),
    metadata: fields.get(FIELD.metadata),
    key_id: fields.get(FIELD.key_id),
    idempotency_key: fields.get(FIELD.idempotency_key),
  };
}

/** What clients report of a model; see StandardMetrics of the protocol. */
function metricsOf(json: string | undefined): Charge {
  const metrics = json === undefined ? undefined : readObject(json);
  if (metrics === undefined) {
    return {};
  }
  const { tokens_input, tokens_output, latency_ms, model_version, ...others } = metrics;
  return {
    tokens_input: numberOf(tokens_input),
    tokens_output: numberOf(tokens_output),
    latency_ms: numberOf(latency_ms),
    model_version: typeof model_version === 'string' ? model_version : undefined,
    custom_metrics: Object.keys(others).length > 0 ? stringifyJson(others) : undefined,
  };
}

function readObject(json: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value = readJson(json);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function numberOf(value: unknown): string | undefined {
  return typeof value === 'bigint' || Number.isSafeInteger(value) ? amountOf(String(value)) : undefined;
}

/** An int64 as text. The debt of six scopes can exceed it, and is cut there. */
function amountOf(text: string | undefined): string | undefined {
  if (text === undefined || !/^\d+$/.test(text)) {
    return undefined;
  }
  return AMOUNT.test(text) && BigInt(text) <= INT64_MAX ? text : INT64_MAX.toString();
}

function instantOf(text: string | undefined): number | undefined {
  const ms = Number(text ?? NaN);
  return Number.isSafeInteger(ms) ? ms : undefined;
}
