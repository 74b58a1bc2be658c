import { Injectable } from '@nestjs/common';
import { type Caller, scopeAllowed } from '../../auth/index.js';
import { Refusal, refusalIn, type Refused, tenantClosed } from '../../ledger/index.js';
import {
  Records,
  RedisService,
  tagOfWebhookId,
  tenantKey,
  webhookKey,
  webhookRevisionKey,
} from '../../redis/index.js';
import { fieldOf, type Fields } from '../../wire/index.js';
import { type DispatchTarget, targetOf } from './dispatch-target.js';

/** The tenant whose subscriptions a caller may access. Empty for operators, who may access all. */
export const reachOf = (caller: Caller): string => (caller.kind === 'tenant' ? caller.tenantId : '');

/**
 * Whether a key may access a subscription with this scope filter. A subscription without a filter receives the events of all of its
 * tenant's scopes, so a key with a scope filter of its own may not have one.
 */
export function withinKey(caller: Caller, scopeFilter: string | undefined): boolean {
  if (caller.kind === 'admin' || caller.scopeFilter.length === 0) {
    return true;
  }
  return scopeFilter !== undefined && scopeAllowed(caller.scopeFilter, fixedScope(scopeFilter));
}

/** @throws Refusal INSUFFICIENT_PERMISSIONS */
export function requireWithinKey(caller: Caller, scopeFilter = ''): void {
  if (!withinKey(caller, scopeFilter === '' ? undefined : scopeFilter)) {
    throw new Refusal(
      'INSUFFICIENT_PERMISSIONS',
      "the subscription would receive events outside the API key's scope filter; give it a scope_filter inside that",
      { field: 'scope_filter' },
    );
  }
}

/** The segments before the first wildcard. Every scope that the filter matches starts with them. */
function fixedScope(scopeFilter: string): string {
  const star = scopeFilter.indexOf('*');
  return star < 0 ? scopeFilter : scopeFilter.slice(0, Math.max(scopeFilter.lastIndexOf('/', star), 0));
}

/** The reply of a script that refuses an operation on a subscription. */
export interface RefusedWebhook {
  readonly status: string;
  readonly selector?: string;
  readonly limit?: number;
}

/** Maps the refusing reply of a webhook script to a refusal. */
export function webhookRefusal(
  { status, selector = '', limit }: RefusedWebhook,
  limitedBy = 'thresholds.budget_utilization',
): Error {
  const refusals: Record<string, Refused> = {
    NOT_FOUND: ['WEBHOOK_NOT_FOUND', 'there is no such webhook subscription'],
    TENANT_NOT_FOUND: ['TENANT_NOT_FOUND', 'there is no such tenant', { field: 'tenant_id' }],
    TENANT_CLOSED: tenantClosed('webhook subscriptions'),
    NO_SELECTOR: [
      'INVALID_REQUEST',
      'event_types and event_categories must not both be empty',
      { field: 'event_types' },
    ],
    ADMIN_ONLY: [
      'INVALID_REQUEST',
      `a tenant's subscription can only receive budget, reservation and tenant events; ${selector} is for operators' subscriptions`,
      { field: selector.includes('.') ? 'event_types' : 'event_categories', selector },
    ],
    TOO_MANY: ['INVALID_REQUEST', `an owner can have at most ${limit} webhook subscriptions`, { limit }],
    TOO_MANY_MARKS: [
      'INVALID_REQUEST',
      `the active subscriptions of a tenant can use at most ${limit} thresholds of budgets beyond the defaults: different values of ` +
        'thresholds.budget_utilization, and of used_amounts among their options',
      { field: limitedBy, limit },
    ],
  };
  return refusalIn(refusals, status, 'a webhook script');
}

/** A stored subscription that the caller may access. */
export interface AccessibleSubscription {
  readonly key: string;
  readonly fields: Fields;
  /** The time of Redis when it was read. */
  readonly nowMs: number;
}

/**
 * Reads subscriptions on behalf of callers. Those of other tenants are not found, and a key with a scope filter only gets those within it.
 */
@Injectable()
export class SubscriptionAccess {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
  ) {}

  /**
   * @param whole whether to read the description and the metadata, too, which may be large
   * @throws Refusal WEBHOOK_NOT_FOUND, INSUFFICIENT_PERMISSIONS; StoreUnavailable
   */
  async read(
    caller: Caller,
    subscriptionId: string,
    { whole = false }: { whole?: boolean } = {},
  ): Promise<AccessibleSubscription> {
    const tag = tagOfWebhookId(subscriptionId, this.redis.partitions);
    if (tag === undefined) {
      throw webhookRefusal({ status: 'NOT_FOUND' });
    }
    const key = webhookKey(tag, subscriptionId);
    const reply = await this.redis.scripts.call(
      'find_webhook',
      { webhook: key, webhookRevision: webhookRevisionKey(tag) },
      { known: '', whole: whole ? 1 : 0 },
    );
    if (
      reply.status !== 'FOUND' ||
      (caller.kind === 'tenant' && fieldOf(reply.record, 'tn') !== caller.tenantId)
    ) {
      throw webhookRefusal({ status: 'NOT_FOUND' });
    }
    requireWithinKey(caller, reply.record.get('sf'));
    return { key, fields: reply.record, nowMs: reply.nowMs };
  }

  /**
   * The current state of a subscription, as a delivery needs it.
   * @param forChange also refuses when its tenant is closed, like every change to what a closed tenant owns
   * @throws Refusal WEBHOOK_NOT_FOUND, INSUFFICIENT_PERMISSIONS, TENANT_CLOSED; StoreUnavailable
   */
  async find(
    caller: Caller,
    subscriptionId: string,
    { forChange = false }: { forChange?: boolean } = {},
  ): Promise<DispatchTarget> {
    const { fields, nowMs } = await this.read(caller, subscriptionId);
    const owner = fieldOf(fields, 'tn');
    const tenant = forChange
      ? await this.records.read(tenantKey(this.records.tagOfTenant(owner), owner))
      : undefined;
    if (tenant?.get('status') === 'CLOSED') {
      throw webhookRefusal({ status: 'TENANT_CLOSED' });
    }
    return targetOf(fields, subscriptionId, nowMs);
  }
}
