import {
  deriveScopes,
  parseAmount,
  SCOPE_LEVELS,
  type ScopeLevel,
  type SubjectLevels,
} from '../../ledger/index.js';
import type { EvidenceReference } from '../../evidence/index.js';
import { readJson } from '../../wire/index.js';
import { IDEMPOTENCY_KEY_MAX_LENGTH } from '../request-parts.dto.js';

/** Called for a stored text that is malformed. The text is then left out of the response. */
export type OnDamage = (reason: string) => void;

type Check = (value: unknown) => boolean;

const isObject: Check = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
/** Lengths are in characters (code points), as for requests. */
const isText = (value: unknown, most: number): boolean =>
  typeof value === 'string' && (value.length <= most || [...value].length <= most);

/** Checks that stored JSON still has the shape of its schema. */
const CHECKS: Readonly<Record<string, Check>> = {
  metadata: isObject,
  committed_metadata: isObject,
  dimensions: (value) =>
    isObject(value) && Object.values(value as object).every((entry) => isText(entry, 256)),
  policy_keys: isObject,
  tags: (value) => Array.isArray(value) && value.length <= 10 && value.every((entry) => isText(entry, 64)),
};

/** A member of a response from its stored JSON. Absent if there is no text, or if Holdfast cannot have written it. */
export function storedJson<Name extends string>(
  name: Name,
  text: string | null | undefined,
  onDamage?: OnDamage,
): Partial<Record<Name, never>> {
  if (text === undefined || text === null) {
    return {};
  }
  const value = parsed(text);
  if (value === undefined || CHECKS[name]?.(value) !== true) {
    onDamage?.('INVALID_JSON');
    return {};
  }
  return { [name]: value } as Partial<Record<Name, never>>;
}

function parsed(text: string): unknown {
  try {
    return readJson(text);
  } catch {
    return undefined;
  }
}

/** A stored text of 1 to `most` characters, or undefined for anything else. */
export function storedText(text: string | undefined, most: number, onDamage?: OnDamage): string | undefined {
  if (text === undefined || text === '' || !isText(text, most)) {
    onDamage?.('INVALID_TEXT');
    return undefined;
  }
  return text;
}

interface WireAmount {
  readonly unit: string;
  readonly amount: bigint;
}

/** ReservationSummary of the protocol. Fields that do not apply are absent. */
export interface ReservationSummary {
  readonly reservation_id: string;
  readonly status: string;
  readonly idempotency_key?: string;
  readonly subject: Record<string, unknown>;
  readonly action: {
    readonly kind: string;
    readonly name: string;
    readonly tags?: unknown;
    readonly policy_keys?: unknown;
  };
  readonly reserved: WireAmount;
  readonly committed?: WireAmount;
  readonly created_at_ms: bigint;
  readonly expires_at_ms: bigint;
  readonly finalized_at_ms?: bigint;
  readonly scope_path: string;
  readonly affected_scopes: readonly string[];
  readonly metadata?: unknown;
  readonly committed_metadata?: unknown;
  /** ReservationEvidence of the protocol. */
  readonly evidence?: Readonly<Record<string, EvidenceReference>>;
}

/** ReservationDetail of the protocol has no other fields here. */
export type ReservationDetail = ReservationSummary;

/** A stored record. lua/lib/field.lua names its fields. */
export type ReservationRecord = ReadonlyMap<string, string>;

const KIND_MAX_LENGTH = 64;
const NAME_MAX_LENGTH = 256;

/** The subject of a request, from a record or from an event with the same fields. */
export function subjectOf(record: ReservationRecord, onDamage?: OnDamage): Record<string, unknown> {
  return { ...levelsOf(record), ...storedJson('dimensions', record.get('dm'), onDamage) };
}

/** The action of a request, from a record or from an event with the same fields. */
export function actionOf(record: ReservationRecord, onDamage?: OnDamage): ReservationSummary['action'] {
  return {
    kind: storedText(record.get('ak'), KIND_MAX_LENGTH, onDamage) ?? 'unknown',
    name: storedText(record.get('an'), NAME_MAX_LENGTH, onDamage) ?? 'unknown',
    ...storedJson('tags', record.get('at'), onDamage),
    ...storedJson('policy_keys', record.get('pk'), onDamage),
  };
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
  const unit = record.get('un') ?? '';
  const scopes = deriveScopes(levelsOf(record), record.get('tn') ?? '');
  const status = record.get('st') ?? '';
  const [key, charged, endedAt] = [record.get('ik'), record.get('ch'), record.get('fa')];
  const settled = status === 'COMMITTED' || status === 'RELEASED';
  return {
    reservation_id: reservationId,
    status,
    ...optional(
      'idempotency_key',
      key === undefined ? undefined : storedText(key, IDEMPOTENCY_KEY_MAX_LENGTH, onDamage),
    ),
    subject: subjectOf(record, onDamage),
    action: actionOf(record, onDamage),
    reserved: { unit, amount: parseAmount(record.get('am')) },
    ...(status === 'COMMITTED' && charged !== undefined
      ? { committed: { unit, amount: parseAmount(charged) } }
      : {}),
    created_at_ms: parseAmount(record.get('ca')),
    expires_at_ms: parseAmount(record.get('ex')),
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
    ...storedJson('metadata', metadata, onDamage),
    ...storedJson('committed_metadata', committedMetadata, onDamage),
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
    record.get('md'),
    record.get('cm'),
    onDamage,
  );
}

/** The tenant as the request gave it. It differs from the effective tenant in case only. */
function tenantOf(record: ReservationRecord): string | undefined {
  const [given, effective] = [record.get('tv'), record.get('tn')];
  return given !== undefined && given.toLowerCase() === effective ? given : effective;
}

/** The subject's levels as the request gave them. Without a tenant in the request, the effective one. */
function levelsOf(record: ReservationRecord): SubjectLevels {
  const levels: SubjectLevels = {};
  const fields: Record<ScopeLevel, string> = {
    tenant: 'tn',
    workspace: 'ws',
    app: 'ap',
    workflow: 'wf',
    agent: 'ag',
    toolset: 'ts',
  };
  for (const level of SCOPE_LEVELS) {
    const value = level === 'tenant' ? tenantOf(record) : record.get(fields[level]);
    if (value !== undefined) {
      levels[level] = value;
    }
  }
  return levels;
}

function optional<Name extends string>(name: Name, text: string | undefined): Partial<Record<Name, string>> {
  return text === undefined ? {} : ({ [name]: text } as Partial<Record<Name, string>>);
}
