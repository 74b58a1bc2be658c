import { Injectable, Module } from '@nestjs/common';
import { type Caller, scopeAllowed } from '../../auth/index.js';
import { Refusal } from '../../ledger/index.js';
import {
  ListingModule,
  Records,
  RedisService,
  tagOfWebhookId,
  tenantKey,
  webhookKey,
  webhookRevisionKey,
} from '../../redis/index.js';
import { MetricsModule } from '../../telemetry/index.js';
import { fieldOf, type Fields, fieldsOf } from '../../wire/index.js';
import { type DispatchTarget, targetOf } from './dispatch-target.js';
import { SubscriptionBook } from './subscription-cache.js';

/** The tenant whose subscriptions a caller reaches; operators reach all. */
export const reachOf = (caller: Caller): string => (caller.kind === 'tenant' ? caller.tenantId : '');

/**
 * Whether a key that is confined to some scopes may see or have a subscription with this scope filter. Without a filter a
 * subscription receives the events of all of its tenant's scopes, which only a key that is not confined may ask for.
 */
export function withinKey(caller: Caller, scopeFilter: string | undefined): boolean {
  if (caller.kind === 'admin' || caller.scopeFilter.length === 0) {
    return true;
  }
  return scopeFilter !== undefined && scopeAllowed(caller.scopeFilter, fixedScope(scopeFilter));
}

/** @throws Refusal INSUFFICIENT_PERMISSIONS */
export function requireWithinKey(caller: Caller, scopeFilter: string | undefined): void {
  if (!withinKey(caller, scopeFilter)) {
    throw new Refusal(
      'INSUFFICIENT_PERMISSIONS',
      "the subscription would receive events from outside the API key's scope filter; give it a scope_filter inside",
      {
        field: 'scope_filter',
      },
    );
  }
}

/** The segments before the first wildcard: what every scope that a filter matches begins with. */
function fixedScope(scopeFilter: string): string {
  const star = scopeFilter.indexOf('*');
  return star < 0 ? scopeFilter : scopeFilter.slice(0, Math.max(scopeFilter.lastIndexOf('/', star), 0));
}

/** What a script's refusal of a subscription means to the caller. */
export function webhookRefusal([word, detail]: readonly string[]): Error {
  switch (word) {
    case 'NOT_FOUND':
      return new Refusal('WEBHOOK_NOT_FOUND', 'there is no such webhook subscription');
    case 'TENANT_NOT_FOUND':
      return new Refusal('TENANT_NOT_FOUND', 'tenant_id names no tenant', { field: 'tenant_id' });
    case 'TENANT_CLOSED':
      return new Refusal('TENANT_CLOSED', 'the tenant is closed; its webhook subscriptions no longer change');
    case 'NO_SELECTOR':
      return new Refusal(
        'INVALID_REQUEST',
        'event_types and event_categories must not both be empty: a subscription names what it receives',
        {
          field: 'event_types',
        },
      );
    case 'ADMIN_ONLY':
      return new Refusal(
        'INVALID_REQUEST',
        `a subscription of a tenant may receive budget, reservation and tenant events only; ${detail} is for the operators' own subscriptions`,
        { field: detail?.includes('.') === true ? 'event_types' : 'event_categories', selector: detail },
      );
    case 'TOO_MANY':
      return new Refusal(
        'INVALID_REQUEST',
        `there can be at most ${detail} webhook subscriptions for one owner`,
        { limit: Number(detail) },
      );
    case 'TOO_MANY_MARKS':
      return new Refusal(
        'INVALID_REQUEST',
        `the active subscriptions of one tenant can ask for at most ${detail} different values of thresholds.budget_utilization`,
        {
          field: 'thresholds.budget_utilization',
          limit: Number(detail),
        },
      );
    default:
      return new Error(`a webhook script answered ${word}`);
  }
}

/** A stored subscription that a caller may reach. */
export interface ReachedSubscription {
  readonly key: string;
  readonly fields: Fields;
  /** Redis' clock when it was read. */
  readonly nowMs: number;
}

/** Reads subscriptions for callers: one of another tenant is not found, and a confined key reaches only what is inside its scopes. */
@Injectable()
export class SubscriptionAccess {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
  ) {}

  /** @throws Refusal WEBHOOK_NOT_FOUND, INSUFFICIENT_PERMISSIONS; StoreUnavailable */
  async reach(caller: Caller, subscriptionId: string): Promise<ReachedSubscription> {
    const tag = tagOfWebhookId(subscriptionId, this.redis.partitions);
    if (tag === undefined) {
      throw webhookRefusal(['NOT_FOUND']);
    }
    const key = webhookKey(tag, subscriptionId);
    const [word, , nowMs, ...record] = await this.redis.scripts.run(
      'find_webhook',
      [key, webhookRevisionKey(tag)],
      ['', 1],
    );
    const fields = fieldsOf(record);
    if (word !== 'FOUND' || (caller.kind === 'tenant' && fieldOf(fields, 'tn') !== caller.tenantId)) {
      throw webhookRefusal(['NOT_FOUND']);
    }
    requireWithinKey(caller, fields.get('sf'));
    return { key, fields, nowMs: Number(nowMs) };
  }

  /**
   * A subscription as a delivery needs it, as it is now.
   * @param forChange refuses when its tenant is closed, as every change of what a closed tenant owns is
   * @throws Refusal WEBHOOK_NOT_FOUND, INSUFFICIENT_PERMISSIONS, TENANT_CLOSED; StoreUnavailable
   */
  async find(
    caller: Caller,
    subscriptionId: string,
    { forChange = false }: { forChange?: boolean } = {},
  ): Promise<DispatchTarget> {
    const { fields, nowMs } = await this.reach(caller, subscriptionId);
    const owner = fieldOf(fields, 'tn');
    const tenant = forChange
      ? await this.records.read(tenantKey(this.records.tagOfTenant(owner), owner))
      : undefined;
    if (tenant?.get('status') === 'CLOSED') {
      throw webhookRefusal(['TENANT_CLOSED']);
    }
    return targetOf(fields, subscriptionId, nowMs);
  }
}

/** Subscriptions for those who deliver to them. */
@Module({
  imports: [ListingModule, MetricsModule],
  providers: [SubscriptionAccess, SubscriptionBook],
  exports: [SubscriptionAccess, SubscriptionBook],
})
export class SubscriptionAccessModule {}
