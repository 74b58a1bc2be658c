import { Injectable } from '@nestjs/common';
import { type Caller, listedTenant, requireTenantId, scopeAllowed } from '../../auth/index.js';
import { invalidField, randomBase62, refusalIn, type Refused, tenantClosed } from '../../ledger/index.js';
import { TenantLimits } from '../../limits/index.js';
import {
  codeOfTenant,
  policyIndexKey,
  policyKey,
  policyNameKey,
  Records,
  RedisService,
  tagOf,
  tagOfPolicyId,
  tenantKey,
} from '../../redis/index.js';
import {
  fieldOf,
  matchesSearch,
  instantMs,
  type Origin,
  type Page,
  RecordSelection,
  sortOrderOf,
  stringifyJson,
} from '../../wire/index.js';
import { CHARGE_FIELD } from '../charge-on-expiry.dto.js';
import { KnownKinds } from '../action-kinds/known-kinds.js';
import {
  BOTH_LISTS,
  hasActionQuotas,
  referencesKind,
  requireKnownKinds,
  ruleSettings,
} from './action-rules.js';
import type {
  CapsDto,
  PolicyCreateDto,
  PolicyListQueryDto,
  PolicyUpdateDto,
  ReservationTtlOverrideDto,
} from './policy.dto.js';
import {
  ownedPattern,
  type Policy,
  policyOf,
  policyTexts,
  RATE_FIELDS,
  requireInFilter,
  scopeOfPattern,
  TTL_FIELDS,
} from './policy.js';

/** Bounded because the idempotency record of every reserve under the policy contains its caps. */
const CAPS_MAX_BYTES = 4096;

@Injectable()
export class PoliciesService {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly limits: TenantLimits,
    private readonly kinds: KnownKinds,
  ) {}

  /**
   * @throws Refusal INVALID_REQUEST, FORBIDDEN, INSUFFICIENT_PERMISSIONS, DUPLICATE_RESOURCE, TENANT_CLOSED, LIMIT_EXCEEDED.
   */
  async create(caller: Caller, request: PolicyCreateDto, origin: Origin): Promise<Policy> {
    requireKnownKinds(request, this.kinds);
    const { pattern, tenantId } = ownedPattern(caller, request.scope_pattern, request.tenant_id);
    const { name, priority = 0, effective_from: from, effective_until: until } = request;
    const [fromMs, untilMs] = [instantMs(from), instantMs(until)];
    if (fromMs !== undefined && untilMs !== undefined && fromMs >= untilMs) {
      throw refusalOf('INVALID_WINDOW');
    }
    const code = codeOfTenant(tenantId, this.redis.partitions);
    const tag = tagOf(code);
    const policyId = `pol_${code}${randomBase62(16)}`;
    const reply = await this.redis.scripts.call(
      'create_policy',
      {
        policy: policyKey(tag, policyId),
        policyIndex: policyIndexKey(tag, tenantId),
        policyNames: policyNameKey(tag, tenantId),
        tenant: tenantKey(tag, tenantId),
      },
      {
        tenantId,
        policyId,
        name,
        scopePattern: pattern,
        priority,
        effectiveFrom: fromMs ?? '',
        effectiveUntil: untilMs ?? '',
        ...origin,
        maxPolicies: this.limits.deployment.policies,
        rest: pairsOf(settingsOf(request).filter(([, value]) => value !== '')),
      },
    );
    if (reply.status === 'LIMIT_EXCEEDED') {
      throw this.limits.refusal(reply);
    }
    if (reply.status !== 'CREATED') {
      throw refusalOf(reply.status, 'limit' in reply ? reply.limit : undefined);
    }
    return policyOf(reply.record, policyId);
  }

  /**
   * Highest priority first by default. An API key sees its own tenant's policies inside its scope filter.
   * @throws Refusal INVALID_REQUEST for another query's cursor, or when an operator names no tenant.
   */
  async list(caller: Caller, request: PolicyListQueryDto): Promise<Page<Policy>> {
    const { cursor, limit, ...query } = request;
    const { status, search, has_action_quotas: hasQuotas, references_action_kind: kind } = query;
    const tenantId = requireTenantId(listedTenant(caller, query.tenant_id));
    const scopeFilter = caller.kind === 'tenant' ? caller.scopeFilter : [];
    const pattern = query.scope_pattern?.toLowerCase() ?? '';
    const selection = new RecordSelection<Policy>({
      query: { list: 'policies', ...query, tenant_id: tenantId, scope_filter: scopeFilter },
      order: sortOrderOf({ sort_dir: query.sort_dir, cursor }, ['priority'], {
        sortBy: 'priority',
        direction: 'desc',
      }),
      cursor,
      limit,
      valueOf: (policy) => policy.priority,
      idOf: (policy) => policy.policy_id,
    });
    await this.records.eachOwned('list_policies', tenantId, (fields) => {
      const policy = this.records.whole('policy', fields, () =>
        policyOf(fields, fieldOf(fields, 'policy_id')),
      );
      if (
        policy !== undefined &&
        scopeAllowed(scopeFilter, scopeOfPattern(policy.scope_pattern)) &&
        (pattern === '' || policy.scope_pattern === pattern) &&
        (status === undefined || policy.status === status) &&
        (hasQuotas === undefined || hasActionQuotas(policy) === hasQuotas) &&
        (kind === undefined || referencesKind(policy, kind)) &&
        matchesSearch(search, policy.policy_id, policy.name)
      ) {
        selection.offer(policy);
      }
    });
    return this.records.withTexts(
      'policy',
      selection.page(),
      (row) => ({ tenantId, id: row.policy_id }),
      policyTexts,
    );
  }

  /**
   * Changes the given settings. An object replaces the previous one as a whole.
   * @throws Refusal NOT_FOUND (also for another tenant's policy), INVALID_REQUEST, INSUFFICIENT_PERMISSIONS, DUPLICATE_RESOURCE,
   * TENANT_CLOSED.
   */
  async update(caller: Caller, policyId: string, request: PolicyUpdateDto, origin: Origin): Promise<Policy> {
    const tag = this.tagOf(policyId);
    await this.requireInFilter(caller, tag, policyId);
    requireKnownKinds(request, this.kinds);
    const { name, status, priority, effective_from: from, effective_until: until } = request;
    const changes: [string, string | number | undefined][] = [
      ['name', name],
      ['status', status],
      ['priority', priority],
      ['effective_from', instantMs(from)],
      ['effective_until', instantMs(until)],
    ];
    const changed = changes.flatMap(([field, value]) =>
      value === undefined ? [] : [[field, String(value)] as const],
    );
    const tenantId = caller.kind === 'tenant' ? caller.tenantId : '';
    return this.store(tenantId, tag, policyId, [...changed, ...settingsOf(request)], origin);
  }

  /** What share of its estimate a reservation under the policy costs if it expires. @throws Refusal NOT_FOUND */
  async chargeOnExpiry(policyId: string): Promise<PolicyCharge> {
    const fields = await this.records.read(policyKey(this.tagOf(policyId), policyId));
    if (fields === undefined) {
      throw refusalOf('NOT_FOUND');
    }
    const percent = fields.get(CHARGE_FIELD);
    return percent === undefined
      ? { policy_id: policyId }
      : { policy_id: policyId, percent: Number(percent) };
  }

  /** @param percent undefined leaves it to the tenant. @throws Refusal NOT_FOUND, TENANT_CLOSED */
  async setChargeOnExpiry(
    policyId: string,
    percent: number | undefined,
    origin: Origin,
  ): Promise<PolicyCharge> {
    await this.store('', this.tagOf(policyId), policyId, [[CHARGE_FIELD, percent?.toString() ?? '']], origin);
    return percent === undefined ? { policy_id: policyId } : { policy_id: policyId, percent };
  }

  private async store(
    tenantId: string,
    tag: string,
    policyId: string,
    settings: readonly Setting[],
    origin: Origin,
  ): Promise<Policy> {
    const reply = await this.redis.scripts.call(
      'update_policy',
      { policy: policyKey(tag, policyId) },
      { tenantId, policyId, ...origin, rest: pairsOf(settings) },
    );
    if (reply.status !== 'UPDATED') {
      throw refusalOf(reply.status, 'limit' in reply ? reply.limit : undefined);
    }
    return policyOf(reply.record, policyId);
  }

  private tagOf(policyId: string): string {
    const tag = tagOfPolicyId(policyId, this.redis.partitions);
    if (tag === undefined) {
      throw refusalOf('NOT_FOUND');
    }
    return tag;
  }

  /** A policy's pattern never changes, so reading it before the script runs is not a race. Keys without a filter skip the read. */
  private async requireInFilter(caller: Caller, tag: string, policyId: string): Promise<void> {
    if (caller.kind === 'admin' || caller.scopeFilter.length === 0) {
      return;
    }
    const fields = await this.records.read(policyKey(tag, policyId));
    if (fields !== undefined && fieldOf(fields, 'tenant_id') === caller.tenantId) {
      requireInFilter(caller, fieldOf(fields, 'scope_pattern'));
    }
  }
}

interface PolicyCharge {
  readonly policy_id: string;
  readonly percent?: number;
}

type Setting = readonly [field: string, value: string];

const pairsOf = (settings: readonly Setting[]): string[] => settings.flat();

/** The settings of a request as the record stores them. An empty value removes the previous one. */
function settingsOf(request: PolicyCreateDto | PolicyUpdateDto): Setting[] {
  const {
    description,
    caps,
    commit_overage_policy: overagePolicy,
    reservation_ttl_override: lease,
    rate_limits: rates,
  } = request;
  return [
    ...(description === undefined ? [] : [['description', description] as const]),
    ...(caps === undefined ? [] : [['caps', storedCaps(caps)] as const]),
    ...(overagePolicy === undefined ? [] : [['commit_overage_policy', overagePolicy] as const]),
    ...(lease === undefined ? [] : leaseSettings(lease)),
    ...(rates === undefined
      ? []
      : RATE_FIELDS.map((field) => [field, rates[field]?.toString() ?? ''] as const)),
    ...ruleSettings(request),
  ];
}

/** JSON. Caps without any member mean no caps. */
function storedCaps(caps: CapsDto): string {
  const text = Object.keys(caps).length === 0 ? '' : stringifyJson(caps);
  if (Buffer.byteLength(text) > CAPS_MAX_BYTES) {
    throw invalidField(
      'caps',
      `caps must be at most ${CAPS_MAX_BYTES} bytes of JSON; these have ${Buffer.byteLength(text)}`,
    );
  }
  return text;
}

function leaseSettings(lease: ReservationTtlOverrideDto): Setting[] {
  const { default_ttl_ms: usual, max_ttl_ms: most } = lease;
  if (usual !== undefined && most !== undefined && usual > most) {
    throw invalidField(
      'reservation_ttl_override.default_ttl_ms',
      'reservation_ttl_override.default_ttl_ms must not exceed max_ttl_ms',
    );
  }
  return TTL_FIELDS.map((field) => [field, lease[field]?.toString() ?? ''] as const);
}

function refusalOf(word: string, limit?: number): Error {
  const at = { field: 'scope_pattern' };
  const refusals: Record<string, Refused> = {
    NOT_FOUND: ['NOT_FOUND', 'there is no such policy'],
    TENANT_NOT_FOUND: ['INVALID_REQUEST', "the pattern's tenant does not exist", at],
    TENANT_SUSPENDED: [
      'INVALID_REQUEST',
      'the tenant is suspended; policies can only be created for active tenants',
      at,
    ],
    TENANT_CLOSED: tenantClosed('policies'),
    DUPLICATE: ['DUPLICATE_RESOURCE', 'the tenant already has a policy with this name', { field: 'name' }],
    INVALID_WINDOW: [
      'INVALID_REQUEST',
      'effective_from must be before effective_until',
      { field: 'effective_until' },
    ],
    BOTH_LISTS,
    TOO_MANY: ['INVALID_REQUEST', `a pattern can have at most ${limit} active policies`, { ...at, limit }],
  };
  return refusalIn(refusals, word, 'a policy script');
}
