import { parseJson } from '../../http/index.js';
import { deriveScopes, parseAmount, SCOPE_LEVELS, type ScopeLevel, type SubjectLevels } from '../../ledger/index.js';

interface WireAmount {
  readonly unit: string;
  readonly amount: bigint;
}

/** ReservationSummary of the protocol; fields that do not apply are absent. */
export interface ReservationSummary {
  readonly reservation_id: string;
  readonly status: string;
  readonly idempotency_key?: string;
  readonly subject: Record<string, unknown>;
  readonly action: { readonly kind: string; readonly name: string; readonly tags?: unknown };
  readonly reserved: WireAmount;
  readonly committed?: WireAmount;
  readonly created_at_ms: bigint;
  readonly expires_at_ms: bigint;
  readonly finalized_at_ms?: bigint;
  readonly scope_path: string;
  readonly affected_scopes: readonly string[];
  readonly metadata?: unknown;
  readonly committed_metadata?: unknown;
}

/** ReservationDetail of the protocol has no further fields here. */
export type ReservationDetail = ReservationSummary;

/** A stored record: lua/lib/hold.lua names its fields. */
export type ReservationRecord = ReadonlyMap<string, string>;

/** Reads a flat list of fields and values, as the scripts return a record. */
export function recordOf(flat: readonly string[]): ReservationRecord {
  const record = new Map<string, string>();
  for (let index = 0; index + 1 < flat.length; index += 2) {
    record.set(flat[index] as string, flat[index + 1] as string);
  }
  return record;
}

/** What a record, or an event with the same fields, keeps of a request's subject. */
export function subjectOf(record: ReservationRecord): Record<string, unknown> {
  return { ...levelsOf(record), ...optional('dimensions', record.get('dm'), parseJson) };
}

/** What it keeps of the action. */
export function actionOf(record: ReservationRecord): ReservationSummary['action'] {
  return { kind: record.get('ak') ?? '', name: record.get('an') ?? '', ...optional('tags', record.get('at'), parseJson) };
}

/** The reservation without its metadata. @throws Error for a record that Holdfast did not write. */
export function summaryOf(reservationId: string, record: ReservationRecord): ReservationSummary {
  const unit = record.get('un') ?? '';
  const scopes = deriveScopes(levelsOf(record), record.get('tn') ?? '');
  const status = record.get('st') ?? '';
  return {
    reservation_id: reservationId,
    status,
    ...optional('idempotency_key', record.get('ik')),
    subject: subjectOf(record),
    action: actionOf(record),
    reserved: { unit, amount: parseAmount(record.get('am')) },
    ...(status === 'COMMITTED' ? { committed: { unit, amount: parseAmount(record.get('ch')) } } : {}),
    created_at_ms: parseAmount(record.get('ca')),
    expires_at_ms: parseAmount(record.get('ex')),
    ...(status === 'COMMITTED' || status === 'RELEASED' ? { finalized_at_ms: parseAmount(record.get('fa')) } : {}),
    scope_path: scopes.at(-1) as string,
    affected_scopes: scopes,
  };
}

/** The metadata of the reserve and of the commit, from their stored texts. */
export function withMetadata(
  summary: ReservationSummary,
  metadata: string | null | undefined,
  committedMetadata: string | null | undefined,
): ReservationSummary {
  return { ...summary, ...optional('metadata', metadata, parseJson), ...optional('committed_metadata', committedMetadata, parseJson) };
}

export function detailOf(reservationId: string, record: ReservationRecord): ReservationDetail {
  return withMetadata(summaryOf(reservationId, record), record.get('md'), record.get('cm'));
}

/** The subject's levels as they were given; the tenant is the effective one where the request named none. */
function levelsOf(record: ReservationRecord): SubjectLevels {
  const levels: SubjectLevels = {};
  const fields: Record<ScopeLevel, string> = { tenant: 'tv', workspace: 'ws', app: 'ap', workflow: 'wf', agent: 'ag', toolset: 'ts' };
  for (const level of SCOPE_LEVELS) {
    const value = record.get(fields[level]) ?? (level === 'tenant' ? record.get('tn') : undefined);
    if (value !== undefined) {
      levels[level] = value;
    }
  }
  return levels;
}

function optional<Name extends string>(
  name: Name,
  text: string | null | undefined,
  read: (text: string) => unknown = (value) => value,
): Partial<Record<Name, never>> {
  return text === undefined || text === null ? {} : ({ [name]: read(text) } as Partial<Record<Name, never>>);
}
