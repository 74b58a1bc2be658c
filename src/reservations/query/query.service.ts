import { Injectable } from '@nestjs/common';
import { deriveScopes, parseAmount, SCOPE_LEVELS, type ScopeLevel, type SubjectLevels } from '../../ledger/index.js';
import { RedisService, reservationKey } from '../../redis/index.js';
import { parseJson } from '../../http/index.js';
import { traceText, type Operation } from '../operation.js';
import { ReservationStore } from '../reservation-store.js';

interface WireAmount {
  readonly unit: string;
  readonly amount: bigint;
}

/** ReservationDetail of the protocol; fields that do not apply are absent. */
export interface ReservationDetail {
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

/** GET /v1/reservations/{id}. */
@Injectable()
export class QueryService {
  constructor(
    private readonly redis: RedisService,
    private readonly store: ReservationStore,
  ) {}

  /** @throws Refusal NOT_FOUND, FORBIDDEN, RESERVATION_EXPIRED. An overdue hold is expired by this read. */
  async get(operation: Operation, reservationId: string): Promise<ReservationDetail> {
    const { caller, trace } = operation;
    const tag = this.store.tagOf(reservationId);
    await this.store.requireInScope(operation, tag, reservationId);
    const answer = await this.redis.scripts.run(
      'get_reservation',
      [reservationKey(tag, reservationId)],
      [caller.tenantId, reservationId, this.store.retentionMs, trace.requestId, traceText(trace)],
    );
    const [, ...fields] = this.store.settled(answer, 'FOUND');
    return detailOf(reservationId, fields);
  }
}

/** Reads a record, a flat list of fields and values as lua/lib/hold.lua names them. */
function detailOf(reservationId: string, fields: readonly string[]): ReservationDetail {
  const record = new Map<string, string>();
  for (let index = 0; index < fields.length; index += 2) {
    record.set(fields[index] as string, fields[index + 1] as string);
  }
  const unit = record.get('un') ?? '';
  const levels = levelsOf(record);
  const scopes = deriveScopes(levels, record.get('tn') ?? '');
  const status = record.get('st') ?? '';
  return {
    reservation_id: reservationId,
    status,
    ...optional('idempotency_key', record.get('ik')),
    subject: { ...levels, ...optional('dimensions', record.get('dm'), parseJson) },
    action: { kind: record.get('ak') ?? '', name: record.get('an') ?? '', ...optional('tags', record.get('at'), parseJson) },
    reserved: { unit, amount: parseAmount(record.get('am')) },
    ...(status === 'COMMITTED' ? { committed: { unit, amount: parseAmount(record.get('ch')) } } : {}),
    created_at_ms: parseAmount(record.get('ca')),
    expires_at_ms: parseAmount(record.get('ex')),
    ...(status === 'ACTIVE' ? {} : { finalized_at_ms: parseAmount(record.get('fa')) }),
    scope_path: scopes.at(-1) as string,
    affected_scopes: scopes,
    ...optional('metadata', record.get('md'), parseJson),
    ...optional('committed_metadata', record.get('cm'), parseJson),
  };
}

/** The subject's levels as they were given; the tenant is the effective one where the request named none. */
function levelsOf(record: ReadonlyMap<string, string>): SubjectLevels {
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
  text: string | undefined,
  read: (text: string) => unknown = (value) => value,
): Partial<Record<Name, never>> {
  return text === undefined ? {} : ({ [name]: read(text) } as Partial<Record<Name, never>>);
}
