import { Injectable } from '@nestjs/common';
import type { Answer } from '../../answers/index.js';
import { EVERYTHING, hashOfSecret, OperatorKeys, type OperatorRole } from '../../auth/index.js';
import { invalidField, oneLine, randomBase62, Refusal, type Refused } from '../../ledger/index.js';
import {
  keyRevokedChannel,
  operatorIndexKey,
  operatorKey,
  operatorSecretKey,
  Records,
  RedisService,
  SkippedRecords,
} from '../../redis/index.js';
import {
  fieldOf,
  type Fields,
  instantMs,
  optionalText,
  optionalTime,
  type Origin,
  type Page,
  RecordSelection,
  timeOf,
} from '../../wire/index.js';
import {
  DEFAULT_OVERLAP_MS,
  OPERATOR_NAME,
  type OperatorCreateDto,
  type OperatorListQueryDto,
  type OperatorRotateDto,
  type OperatorUpdateDto,
} from './operator.dto.js';

/** A named operator. Neither a key nor its hash is part of it. */
export type Operator = Answer<'Operator'>;

/** An operator with a new key, which only this answer ever contains. */
export type OperatorWithKey = Operator & { readonly key_secret: string };

/** 43 base62 characters hold 256 bits. The first four are shown to tell keys apart. */
const SECRET_LENGTH = 43;
const PREFIX = 'opr_';
const SHOWN_LENGTH = PREFIX.length + 4;
const RECORDS_A_RUN = 100;

/** @param nowMs the time of Redis. @throws Error if the record is corrupt. */
function operatorOf(fields: Fields, nowMs: number): Operator {
  const status = fieldOf(fields, 'status');
  if (status !== 'ACTIVE' && status !== 'REVOKED') {
    throw new Error(`corrupt operator record: its status is ${status}`);
  }
  const isExpired = Number(fields.get('expires_at') ?? Infinity) <= nowMs;
  const previousUntil = Number(fields.get('previous_until') ?? 0);
  const overlaps = status === 'ACTIVE' && previousUntil > nowMs;
  return {
    name: fieldOf(fields, 'name'),
    role: fieldOf(fields, 'role') as OperatorRole,
    tenants: (fields.get('tenants') ?? EVERYTHING).split(' '),
    status: status === 'ACTIVE' && isExpired ? 'EXPIRED' : status,
    key_prefix: fieldOf(fields, 'key_prefix'),
    created_at: timeOf(fieldOf(fields, 'created_at')),
    ...optionalTime(fields, 'expires_at'),
    ...optionalTime(fields, 'rotated_at'),
    ...(overlaps ? { previous_key_until: timeOf(String(previousUntil)) } : {}),
    ...optionalTime(fields, 'revoked_at'),
    ...optionalText(fields, 'revoked_reason'),
  };
}

/** Named operators and their keys. */
@Injectable()
export class OperatorsService {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly skipped: SkippedRecords,
    private readonly keys: OperatorKeys,
  ) {}

  /** @throws Refusal DUPLICATE_RESOURCE (a name is never given twice), INVALID_REQUEST (expiry in the past) */
  async create(request: OperatorCreateDto, origin: Origin): Promise<OperatorWithKey> {
    const { name, role, tenants } = request;
    const { secret, hash, prefix } = newKey();
    const { tag } = this.keys;
    const reply = await this.redis.scripts.call(
      'create_operator',
      {
        operator: operatorKey(tag, name),
        operatorSecret: operatorSecretKey(tag, hash),
        operatorIndex: operatorIndexKey(tag),
      },
      {
        name,
        role,
        hash,
        keyPrefix: prefix,
        expiresAtMs: instantMs(request.expires_at) ?? '',
        tenants: textOf(tenants) ?? EVERYTHING,
        ...origin,
      },
    );
    if (reply.status !== 'CREATED') {
      throw refusalOf(reply.status);
    }
    return { ...operatorOf(reply.record, reply.nowMs), key_secret: secret };
  }

  /** By name. @throws Refusal INVALID_REQUEST for another query's cursor */
  async list({ cursor, limit, status }: OperatorListQueryDto): Promise<Page<Operator>> {
    const selection = new RecordSelection<Operator>({
      query: { list: 'operators', status },
      order: { sortBy: 'name', direction: 'asc' },
      cursor,
      limit,
      valueOf: ({ name }) => name,
      idOf: ({ name }) => name,
    });
    let after = '';
    do {
      const { nowMs, nextMember, records } = await this.redis.queries.call(
        'list_operators',
        { operatorIndex: operatorIndexKey(this.keys.tag) },
        { after, limit: RECORDS_A_RUN },
      );
      for (const { record } of records) {
        const operator = this.skipped.whole('operator', record.get('name') ?? '?', () =>
          operatorOf(record, nowMs),
        );
        if (operator !== undefined && (status === undefined || operator.status === status)) {
          selection.offer(operator);
        }
      }
      after = nextMember ?? '';
    } while (after !== '');
    return selection.page();
  }

  /** @throws Refusal NOT_FOUND */
  async get(name: string): Promise<Operator> {
    const fields = await this.records.read(this.placeOf(name));
    if (fields === undefined) {
      throw refusalOf('NOT_FOUND');
    }
    return operatorOf(fields, this.redis.clock.ledgerMs());
  }

  /**
   * Gives an operator a new key. The one before works until the overlap ends; one that was still left from the rotation before ends at once.
   * Its expiry stays, unless another one is given.
   * @throws Refusal NOT_FOUND, KEY_REVOKED, KEY_EXPIRED, INVALID_REQUEST (expiry in the past)
   */
  async rotate(name: string, request: OperatorRotateDto, origin: Origin): Promise<OperatorWithKey> {
    const { secret, hash, prefix } = newKey();
    const reply = await this.redis.scripts.call(
      'rotate_operator',
      { operator: this.placeOf(name), operatorSecret: operatorSecretKey(this.keys.tag, hash) },
      {
        hash,
        keyPrefix: prefix,
        overlapMs: request.overlap_ms ?? DEFAULT_OVERLAP_MS,
        expiresAtMs: instantMs(request.expires_at) ?? '',
        channel: keyRevokedChannel(),
        ...origin,
      },
    );
    if (reply.status !== 'ROTATED') {
      throw refusalOf(reply.status);
    }
    this.forget(reply.record);
    return { ...operatorOf(reply.record, reply.nowMs), key_secret: secret };
  }

  /**
   * Gives an operator another role or other tenants, which its keys and sessions have from then on: in this instance before this returns, in
   * the others when the announcement arrives.
   * @throws Refusal INVALID_REQUEST if nothing changes, NOT_FOUND, KEY_REVOKED
   */
  async update(name: string, { role, tenants }: OperatorUpdateDto, origin: Origin): Promise<Operator> {
    if (role === undefined && tenants === undefined) {
      throw invalidField('role', 'role or tenants must be given');
    }
    const reply = await this.redis.scripts.call(
      'update_operator',
      { operator: this.placeOf(name) },
      { role: role ?? '', tenants: textOf(tenants) ?? '', channel: keyRevokedChannel(), ...origin },
    );
    if (reply.status !== 'UPDATED') {
      throw refusalOf(reply.status);
    }
    this.forget(reply.record);
    return operatorOf(reply.record, reply.nowMs);
  }

  /**
   * Ends an operator's keys and sessions: in this instance before this returns, in the others when the announcement arrives.
   * @throws Refusal NOT_FOUND, KEY_REVOKED
   */
  async revoke(name: string, reason: string | undefined, origin: Origin): Promise<Operator> {
    const reply = await this.redis.scripts.call(
      'revoke_operator',
      { operator: this.placeOf(name) },
      { reason: oneLine(reason), channel: keyRevokedChannel(), ...origin },
    );
    if (reply.status !== 'REVOKED') {
      throw refusalOf(reply.status);
    }
    this.forget(reply.record);
    return operatorOf(reply.record, reply.nowMs);
  }

  private forget(record: Fields): void {
    for (const field of ['secret_hash', 'previous_hash']) {
      const hash = record.get(field);
      if (hash !== undefined) {
        this.keys.forget(hash);
      }
    }
  }

  /** @throws Refusal NOT_FOUND for what cannot be a name */
  private placeOf(name: string): string {
    if (!OPERATOR_NAME.test(name)) {
      throw refusalOf('NOT_FOUND');
    }
    return operatorKey(this.keys.tag, name);
  }
}

const textOf = (tenants: readonly string[] | undefined): string | undefined => tenants?.join(' ');

function newKey(): { secret: string; hash: string; prefix: string } {
  const secret = `${PREFIX}${randomBase62(SECRET_LENGTH)}`;
  return { secret, hash: hashOfSecret(secret), prefix: secret.slice(0, SHOWN_LENGTH) };
}

const REFUSALS = {
  NAME_TAKEN: ['DUPLICATE_RESOURCE', 'there is or was an operator of this name', { field: 'name' }],
  EXPIRES_IN_PAST: ['INVALID_REQUEST', 'expires_at must be in the future', { field: 'expires_at' }],
  NOT_FOUND: ['NOT_FOUND', 'there is no such operator'],
  EXPIRED: ['KEY_EXPIRED', 'the operator has expired; create another one'],
  ALREADY_REVOKED: ['KEY_REVOKED', 'the operator is revoked for good; create another one'],
} satisfies Record<string, Refused>;

const refusalOf = (word: keyof typeof REFUSALS): Refusal => new Refusal(...(REFUSALS[word] as Refused));
