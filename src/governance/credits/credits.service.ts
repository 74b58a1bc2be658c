import { Inject, Injectable } from '@nestjs/common';
import type { Answer } from '../../answers/index.js';
import { type Caller, scopeAllowed, type TenantCaller } from '../../auth/index.js';
import type { BulkRun } from '../../bulk/index.js';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import {
  fingerprintOf,
  oneLine,
  parseScopePath,
  randomBase62,
  Refusal,
  tenantOfScope,
  type Unit,
} from '../../ledger/index.js';
import {
  budgetKey,
  codeOfTenant,
  creditKey,
  idempotencyKey,
  Records,
  RedisService,
  type ScriptReply,
  SkippedRecords,
  tagOf,
  tagOfCreditId,
} from '../../redis/index.js';
import { fieldOf, type Fields, fieldsOf, instantMs, type Origin } from '../../wire/index.js';
import { budgetRefusal, ownedScope, requireUnit } from '../budgets/budget.js';
import { type Credit, creditName, creditOf, creditTexts, liveCredits } from './credit.js';
import type {
  CreditGrantDto,
  CreditListQueryDto,
  CreditTermsDto,
  CreditUpdateDto,
  CreditVoidDto,
} from './credit.dto.js';

/** Beside those that live, of which a budget has at most 64. */
const MOST_ENDED = 500;
/** lua/lib/credit_record.lua has the same number. */
const MOST_LIVE = 64;

/** A grant to one budget. */
export interface Grant {
  readonly tenantId: string;
  readonly scope: string;
  readonly unit: Unit;
  readonly terms: CreditTermsDto;
  readonly idempotencyKey: string;
  readonly fingerprint: string;
  /** How long a retry gets the same. */
  readonly keepMs: number;
}

interface KnownCredit {
  readonly credit: string;
  readonly budget: string;
  readonly tenantId: string;
  readonly scope: string;
  readonly unit: Unit;
}

/** Credits of budgets: parts of their allocation that burn in an order, and end. lua/lib/credit_record.lua says how. */
@Injectable()
export class CreditsService {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly skipped: SkippedRecords,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  /**
   * Gives a budget a credit. A retry returns the first answer.
   * @throws Refusal INVALID_REQUEST, UNIT_MISMATCH, BUDGET_NOT_FOUND, TENANT_CLOSED, BUDGET_FROZEN, BUDGET_CLOSED, IDEMPOTENCY_MISMATCH
   */
  async grant(caller: Caller, request: CreditGrantDto, origin: Origin): Promise<Credit> {
    const { scope, tenantId } = ownedScope(caller, request.scope, request.tenant_id);
    const { unit, idempotency_key: key } = request;
    requireUnit(unit, 'amount', request.amount);
    const grant = {
      tenantId,
      scope,
      unit,
      terms: request,
      idempotencyKey: key,
      fingerprint: fingerprintOf(request),
      keepMs: this.config.idempotencyTtlMs,
    };
    const reply = await this.tryGrant(grant, origin);
    if (reply.status !== 'GRANTED') {
      throw refusalOf(reply, scope, unit);
    }
    return grantedCredit(grant, reply);
  }

  /** @throws Refusal INVALID_REQUEST, from `creditTexts` */
  tryGrant(
    { tenantId, scope, unit, terms, idempotencyKey: key, fingerprint, keepMs }: Grant,
    origin: Origin | BulkRun,
  ): Promise<ScriptReply<'grant_credit'>> {
    const code = codeOfTenant(tenantId, this.redis.partitions);
    const tag = tagOf(code);
    return this.redis.scripts.call(
      'grant_credit',
      {
        budget: budgetKey(tag, unit, scope),
        idempotency: idempotencyKey.credit(tag, unit, scope, key),
        credit: creditKey(tag, `crd_${code}${randomBase62(16)}`),
      },
      {
        tenantId,
        scope,
        unit,
        ...creditTexts(terms),
        fingerprint,
        idempotencyTtlMs: keepMs,
        correlationId: '',
        ...origin,
      },
    );
  }

  /**
   * The credits of a budget in the order in which they burn, then those that have ended within 30 days, newest first.
   * @throws Refusal INVALID_REQUEST, BUDGET_NOT_FOUND
   */
  list(
    caller: Caller,
    { scope: text, unit, tenant_id: named }: CreditListQueryDto,
  ): Promise<Answer<'CreditList'>> {
    const { scope, tenantId } = ownedScope(caller, text, named);
    return this.listAt(tenantId, scope, unit, (status) => budgetRefusal(status, scope, unit));
  }

  /** The same of the tenant of an API key. @throws Refusal INVALID_REQUEST, FORBIDDEN, NOT_FOUND */
  listOwn(
    { tenantId, scopeFilter }: TenantCaller,
    { scope: text, unit }: CreditListQueryDto,
  ): Promise<Answer<'CreditList'>> {
    const scope = parseScopePath(text);
    if (tenantOfScope(scope) !== tenantId || !scopeAllowed(scopeFilter, scope)) {
      throw new Refusal(
        'FORBIDDEN',
        "the scope belongs to another tenant, or is outside the API key's scope filter",
        { field: 'scope' },
      );
    }
    return this.listAt(
      tenantId,
      scope,
      unit,
      () => new Refusal('NOT_FOUND', `there is no ${unit} budget at ${scope}`, { scope, unit }),
    );
  }

  private async listAt(
    tenantId: string,
    scope: string,
    unit: Unit,
    refusal: (status: string) => Error,
  ): Promise<Answer<'CreditList'>> {
    const budget = budgetKey(this.records.tagOfTenant(tenantId), unit, scope);
    const reply = await this.redis.queries.call(
      'list_credits',
      { budget },
      { scope, unit, limit: MOST_ENDED },
    );
    if (reply.status !== 'FOUND') {
      throw refusal(reply.status);
    }
    const live = liveCredits(reply.live);
    const credits = reply.credits.flatMap((text) => {
      const fields = fieldsOf(text.split('\u001f'));
      const id = fieldOf(fields, 'credit_id');
      return this.skipped.whole('credit', id, () => creditOf(id, fields, live)) ?? [];
    });
    return {
      credits: inOrder(credits, [...live.burning.keys()]),
      ...(reply.hasMore && { has_more: true }),
    };
  }

  /**
   * Ends a credit. What live holds may need of it stays until they end. Voiding it again changes nothing.
   * @throws Refusal NOT_FOUND, RESERVATION_FINALIZED (it has ended), TENANT_CLOSED, BUDGET_CLOSED
   */
  async void(creditId: string, { reason }: CreditVoidDto, origin: Origin): Promise<Credit> {
    const { credit, budget, ...at } = await this.find(creditId);
    const reply = await this.redis.scripts.call(
      'void_credit',
      { credit, budget },
      { ...at, reason: oneLine(reason), ...origin },
    );
    if (reply.status !== 'CHANGED') {
      throw refusalOf(reply, at.scope, at.unit);
    }
    return creditOf(creditId, reply.record, liveCredits(reply.live));
  }

  /**
   * Moves the end of a credit, or names it anew.
   * @throws Refusal INVALID_REQUEST, NOT_FOUND, RESERVATION_FINALIZED (it has ended), TENANT_CLOSED, BUDGET_CLOSED
   */
  async update(creditId: string, request: CreditUpdateDto, origin: Origin): Promise<Credit> {
    const { name, expires_at: expiresAt } = request;
    const { credit, budget, ...at } = await this.find(creditId);
    const reply = await this.redis.scripts.call(
      'update_credit',
      { credit, budget },
      {
        ...at,
        name: name === undefined ? '' : creditName(name),
        expiresAt: expiresAt === null ? 'none' : (instantMs(expiresAt) ?? ''),
        ...origin,
      },
    );
    if (reply.status !== 'CHANGED') {
      throw refusalOf(reply, at.scope, at.unit);
    }
    return creditOf(creditId, reply.record, liveCredits(reply.live));
  }

  /** The id has the partition of a credit, and its record the rest. @throws Refusal NOT_FOUND */
  private async find(creditId: string): Promise<KnownCredit> {
    const tag = tagOfCreditId(creditId, this.redis.partitions);
    const credit = creditKey(tag ?? '', creditId);
    const fields = tag === undefined ? undefined : await this.records.read(credit);
    if (tag === undefined || fields === undefined) {
      throw new Refusal('NOT_FOUND', 'there is no such credit');
    }
    const [scope, unit] = [fieldOf(fields, 'scope'), fieldOf(fields, 'unit') as Unit];
    return {
      credit,
      budget: budgetKey(tag, unit, scope),
      tenantId: fieldOf(fields, 'tenant_id'),
      scope,
      unit,
    };
  }
}

/** As it was when it was granted, so that a retry gets the same. */
function grantedCredit(
  { unit, terms }: Grant,
  granted: Extract<ScriptReply<'grant_credit'>, { status: 'GRANTED' }>,
): Credit {
  const { creditId, state, createdMs, effectiveMs, remaining } = granted;
  const texts = creditTexts(terms);
  const fields: Fields = new Map([
    ['unit', unit],
    ['amount', texts.amount],
    ['name', texts.name],
    ['category', texts.category],
    ['priority', String(texts.priority)],
    ['effective_at', String(effectiveMs)],
    ['expires_at', String(texts.expiresAt)],
    ['notify_before_ms', String(texts.notifyBeforeMs)],
    ['metadata', texts.metadata],
    ['created_at', String(createdMs)],
    ['status', state],
    ['ended_at', String(createdMs)],
  ]);
  const left = { isActive: state === 'ACTIVE', left: BigInt(remaining) };
  const burning = new Map(state === 'EXHAUSTED' ? [] : [[creditId, left]]);
  return creditOf(creditId, fields, { burning, pinned: new Map() });
}

function inOrder(credits: readonly Credit[], burning: readonly string[]): Credit[] {
  const byId = new Map(credits.map((credit) => [credit.credit_id, credit]));
  const first = burning.flatMap((id) => byId.get(id) ?? []);
  const ended = credits.filter(({ credit_id: id }) => !burning.includes(id));
  const endOf = ({ ended_at: at = '' }: Credit): number => Date.parse(at);
  return [
    ...first,
    ...ended.sort(
      (one, other) => endOf(other) - endOf(one) || one.credit_id.localeCompare(other.credit_id, 'en'),
    ),
  ];
}

/** Refusals of grants, which bulk actions have, too. */
export const TOO_MANY_CREDITS = `a budget can have at most ${MOST_LIVE} credits that have not ended`;
export const CREDIT_ENDED = 'expires_at must be in the future, and after effective_at';

function refusalOf(
  reply: Exclude<
    ScriptReply<'grant_credit' | 'void_credit' | 'update_credit'>,
    { status: 'GRANTED' | 'VOIDED' | 'CHANGED' }
  >,
  scope: string,
  unit: Unit,
): Error {
  const [at, state] = [{ scope, unit }, 'state' in reply ? reply.state : undefined];
  return budgetRefusal(reply.status, scope, unit, {
    TOO_MANY_CREDITS: ['INVALID_REQUEST', TOO_MANY_CREDITS, { limit: MOST_LIVE, ...at }],
    CREDIT_ENDED: ['INVALID_REQUEST', CREDIT_ENDED, { field: 'expires_at' }],
    INT64_OVERFLOW: [
      'INVALID_REQUEST',
      'the amount would overflow int64 in the budget',
      { field: 'amount.amount', ...at },
    ],
    CREDIT_FINALIZED: ['RESERVATION_FINALIZED', `the credit has ended: it is ${state}`, { status: state }],
  });
}
