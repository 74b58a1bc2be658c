import type { Answer } from '../../answers/index.js';
import { deriveScopes, parseAmount, SCOPE_LEVELS, type SubjectLevels } from '../../ledger/index.js';
import type { EvidenceReference } from '../../evidence/index.js';
import { FIELD } from '../../redis/index.js';
import { optional } from '../../wire/index.js';
import {
  givenMembers,
  LEVEL_FIELDS,
  type OnDamage,
  type ReservationRecord,
  storedObject,
  storedText,
} from '../given-fields.js';
import { IDEMPOTENCY_KEY_MAX_LENGTH } from '../request-parts.dto.js';

interface WireAmount {
  readonly unit: string;
  readonly amount: bigint;
}

/** ReservationSummary of the protocol, with exact figures. Fields that do not apply are absent. */
export type ReservationSummary = Answer<'ReservationSummary'> & {
  readonly reserved: WireAmount;
  readonly committed?: WireAmount;
  /** What of the charge was refunded. */
  readonly refunded?: WireAmount;
  readonly created_at_ms: bigint;
  readonly expires_at_ms: bigint;
};

/** ReservationDetail of the protocol has no other fields here. */
export type ReservationDetail = ReservationSummary;

/** The subject of a request, from a record or from an event with the same fields. */
export function subjectOf(record: ReservationRecord, onDamage?: OnDamage): Record<string, unknown> {
  return { ...levelsOf(record), ...givenMembers('subject', record, onDamage) };
}

/** The action of a request, from a record or from an event with the same fields. */
export function actionOf(record: ReservationRecord, onDamage?: OnDamage): ReservationSummary['action'] {
  return givenMembers('action', record, onDamage) as unknown as ReservationSummary['action'];
}

/**
 * The reservation without its metadata. Damaged texts are left out, or `unknown` where the response requires one.
 * @throws Error for a state, amount or time that Holdfast did not write; the scripts already replace damaged ones.
 */
export function summaryOf(
  reservationId: string,
  record: ReservationRecord,
  onDamage?: OnDamage,
): ReservationSummary {
  const unit = record.get(FIELD.unit) ?? '';
  const scopes = deriveScopes(levelsOf(record), record.get(FIELD.tenant) ?? '');
  const status = record.get(FIELD.state) ?? '';
  const [key, charged, refunded, endedAt] = [
    record.get(FIELD.idempotency_key),
    record.get(FIELD.charged),
    record.get(FIELD.refunded),
    record.get(FIELD.ended_at),
  ];
  const settled = status === 'COMMITTED' || status === 'RELEASED';
  return {
    reservation_id: reservationId,
    status,
    ...optional(
      'idempotency_key',
      key === undefined ? undefined : storedText(key, IDEMPOTENCY_KEY_MAX_LENGTH, onDamage),
    ),
    ...optional('reservation_set_id', record.get(FIELD.reservation_set)),
    subject: subjectOf(record, onDamage),
    action: actionOf(record, onDamage),
    ...givenMembers('request', record, onDamage),
    reserved: { unit, amount: parseAmount(record.get(FIELD.amount)) },
    ...(status === 'COMMITTED' && charged !== undefined
      ? { committed: { unit, amount: parseAmount(charged) } }
      : {}),
    ...(refunded === undefined ? {} : { refunded: { unit, amount: parseAmount(refunded) } }),
    created_at_ms: parseAmount(record.get(FIELD.created_at)),
    expires_at_ms: parseAmount(record.get(FIELD.expires_at)),
    ...(settled && endedAt !== undefined ? { finalized_at_ms: parseAmount(endedAt) } : {}),
    scope_path: scopes.at(-1) as string,
    affected_scopes: scopes,
  };
}

/** Adds the metadata of the reserve and of the commit from their stored texts. */
export function withMetadata(
  summary: ReservationSummary,
  metadata: string | null | undefined,
  committedMetadata: string | null | undefined,
  onDamage?: OnDamage,
): ReservationSummary {
  return {
    ...summary,
    ...storedObject('metadata', metadata, onDamage),
    ...storedObject('committed_metadata', committedMetadata, onDamage),
  };
}

const ENDING_ARTIFACTS: Readonly<Record<string, string>> = { COMMITTED: 'commit', RELEASED: 'release' };
const STORED_EVIDENCE_ID = /^[\w-]{43}$/;

/** Adds the references to the evidence of the reserve and of the settlement from their stored ids. */
export function withEvidence(
  summary: ReservationSummary,
  reserve: string | null | undefined,
  end: string | null | undefined,
  referenceTo: (evidenceId: string) => EvidenceReference,
): ReservationSummary {
  const named = [
    ['reserve', reserve],
    [ENDING_ARTIFACTS[summary.status], end],
  ] as const;
  const evidence = named.flatMap(([artifact, id]) =>
    artifact !== undefined && typeof id === 'string' && STORED_EVIDENCE_ID.test(id)
      ? [[artifact, referenceTo(Buffer.from(id, 'base64url').toString('hex'))] as const]
      : [],
  );
  return evidence.length === 0 ? summary : { ...summary, evidence: Object.fromEntries(evidence) };
}

export function detailOf(
  reservationId: string,
  record: ReservationRecord,
  onDamage?: OnDamage,
): ReservationDetail {
  return withMetadata(
    summaryOf(reservationId, record, onDamage),
    record.get(FIELD.metadata),
    record.get(FIELD.commit_metadata),
    onDamage,
  );
}

/** The tenant as the request gave it. It differs from the effective tenant in case only. */
function tenantOf(record: ReservationRecord): string | undefined {
  const [given, effective] = [record.get(FIELD.given_tenant), record.get(FIELD.tenant)];
  return given !== undefined && given.toLowerCase() === effective ? given : effective;
}

/** The subject's levels as the request gave them. Without a tenant in the request, the effective one. */
function levelsOf(record: ReservationRecord): SubjectLevels {
  const levels: SubjectLevels = {};
  for (const level of SCOPE_LEVELS) {
    const value = level === 'tenant' ? tenantOf(record) : record.get(LEVEL_FIELDS[level]);
    if (value !== undefined) {
      levels[level] = value;
    }
  }
  return levels;
}
