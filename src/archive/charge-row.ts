import { deriveScopes, SCOPE_LEVELS, type SubjectLevels } from '../ledger/index.js';
import { FIELD } from '../redis/index.js';
import { type Fields, readJson, stringifyJson } from '../wire/index.js';
import { CHARGE_COLUMNS } from './charge-columns.js';
import { type EntryId, msOf } from './entry-chain.js';
import type { Cell } from './parquet-tasks.js';

type ChargeColumn = (typeof CHARGE_COLUMNS)[number]['name'];

const PLACES = Object.fromEntries(CHARGE_COLUMNS.map(({ name }, place) => [name, place])) as Record<
  ChargeColumn,
  number
>;

/** A row in the order of CHARGE_COLUMNS. Objects that are spread into each other took three quarters of the time that a row takes. */
class ChargeRow {
  readonly cells = new Array<Cell>(CHARGE_COLUMNS.length).fill(null);

  put(name: ChargeColumn, cell: Cell | undefined): void {
    if (cell !== undefined) {
      this.cells[PLACES[name]] = cell;
    }
  }
}

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
  const row = new ChargeRow();
  const isDebit = fields.has('event');
  const isRefund = fields.has(FIELD.refunded);
  row.put('partition', partition);
  row.put('entry', entry);
  row.put('recorded_at', msOf(entry));
  row.put('epoch', epoch);
  row.put(
    'source',
    isRefund ? 'REFUND' : isDebit ? 'DIRECT_DEBIT' : fields.has('mended') ? 'CORRECTION' : 'RESERVATION',
  );
  row.put('charged', signedAmountOf(fields.get(FIELD.charged)));
  row.put('debt', amountOf(fields.get('debt')) ?? '0');
  row.put('request_id', fields.get('rq'));
  row.put('trace_id', fields.get('tr')?.slice(0, 32));
  row.put('credits', creditsOf(fields.get(FIELD.credits), isRefund));
  putSubject(row, fields);
  if (isDebit) {
    putDebit(row, entry, fields);
  } else {
    putReservation(row, fields);
  }
  if (isRefund) {
    putRefund(row, fields);
  }
  return row.cells;
}

function putReservation(row: ChargeRow, fields: Fields): void {
  const state = fields.get(FIELD.state);
  const charged = fields.get(FIELD.charged);
  row.put('record_id', fields.get('id'));
  row.put('state', state);
  row.put('ended_at', instantOf(fields.get(FIELD.ended_at)));
  row.put('created_at', instantOf(fields.get(FIELD.created_at)));
  row.put('unit', fields.get(FIELD.unit));
  row.put('reserved', amountOf(fields.get(FIELD.amount)));
  row.put('actual', amountOf(fields.get('actual') ?? (state === 'COMMITTED' ? charged : undefined)));
  row.put('overage_policy', fields.get(FIELD.overage_policy));
  row.put('commit_metadata', fields.get(FIELD.commit_metadata));
  row.put('ended_by', fields.get(FIELD.ended_by));
  row.put('reason', fields.get(FIELD.release_reason));
  putMetrics(row, fields.get(FIELD.commit_metrics));
}

/** A debit's event has most of it under its own names: lua/ledger/direct_debit.lua. */
function putDebit(row: ChargeRow, entry: EntryId, fields: Fields): void {
  const ended = instantOf(fields.get('event')?.split('-')[0]) ?? msOf(entry);
  row.put('record_id', fields.get('event_id'));
  row.put('state', 'APPLIED');
  row.put('ended_at', ended);
  row.put('created_at', ended);
  row.put('unit', fields.get('unit'));
  row.put('reserved', '0');
  row.put('actual', amountOf(fields.get('actual_amount') ?? fields.get(FIELD.charged)));
  row.put('overage_policy', fields.get('overage_policy'));
  row.put('ended_by', fields.get(FIELD.key_id));
}

/** Over the row of what was charged. Whatever sums add up of that is there already. */
function putRefund(row: ChargeRow, fields: Fields): void {
  row.put('state', 'REFUNDED');
  row.put('ended_at', instantOf(fields.get(FIELD.ended_at)));
  row.put('reserved', '0');
  row.put('ended_by', fields.get(FIELD.ended_by));
  row.put('reason', fields.get(FIELD.release_reason));
  for (const name of [
    'actual',
    'commit_metadata',
    'tokens_input',
    'tokens_output',
    'latency_ms',
    'custom_metrics',
  ] as const) {
    row.put(name, null);
  }
}

function putSubject(row: ChargeRow, fields: Fields): void {
  const tenant = fields.get(FIELD.tenant);
  const levels: SubjectLevels = {};
  for (const level of SCOPE_LEVELS) {
    const value = level === 'tenant' ? undefined : fields.get(FIELD[level])?.toLowerCase();
    if (value !== undefined) {
      levels[level] = value;
      row.put(level, value);
    }
  }
  row.put('tenant', tenant);
  row.put('scope', tenant === undefined ? undefined : deriveScopes(levels, tenant).at(-1));
  row.put('scope_mask', fields.get(FIELD.scope_mask));
  row.put('action_kind', fields.get(FIELD.action_kind));
  row.put('action_name', fields.get(FIELD.action_name));
  row.put('action_tags', fields.get(FIELD.action_tags));
  row.put('dimensions', fields.get(FIELD.dimensions));
  row.put('metadata', fields.get(FIELD.metadata));
  row.put('key_id', fields.get(FIELD.key_id));
  row.put('idempotency_key', fields.get(FIELD.idempotency_key));
}

/** What clients report of a model; see StandardMetrics of the protocol. */
function putMetrics(row: ChargeRow, json: string | undefined): void {
  const metrics = json === undefined ? undefined : readObject(json);
  if (metrics === undefined) {
    return;
  }
  const { tokens_input, tokens_output, latency_ms, model_version, ...others } = metrics;
  row.put('tokens_input', numberOf(tokens_input));
  row.put('tokens_output', numberOf(tokens_output));
  row.put('latency_ms', numberOf(latency_ms));
  row.put('model_version', typeof model_version === 'string' ? model_version : undefined);
  row.put('custom_metrics', Object.keys(others).length > 0 ? stringifyJson(others) : undefined);
}

/** Amounts by credit id, as JSON. The fields of a refund may have those of what was charged, which are not negative. */
function creditsOf(text: string | undefined, isRefund: boolean): string | undefined {
  const sums = new Map<string, bigint>();
  for (const [, id = '', amount = '0'] of (text ?? '').matchAll(/(\w+):(-?\d+)/g)) {
    if (amount.startsWith('-') === isRefund) {
      sums.set(id, (sums.get(id) ?? 0n) + BigInt(amount));
    }
  }
  return sums.size === 0 ? undefined : stringifyJson(Object.fromEntries(sums));
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

function signedAmountOf(text: string | undefined): string | undefined {
  const amount = amountOf(text?.replace(/^-/, ''));
  return amount !== undefined && text?.startsWith('-') === true ? `-${amount}` : amount;
}

function instantOf(text: string | undefined): number | undefined {
  const ms = Number(text ?? NaN);
  return Number.isSafeInteger(ms) ? ms : undefined;
}
