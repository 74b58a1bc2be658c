import { Injectable } from '@nestjs/common';
import { type Caller, mayActFor, type Tenants } from '../../auth/index.js';
import { invalidField } from '../../ledger/index.js';
import { Records, SYSTEM_OWNER } from '../../redis/index.js';
import {
  fieldOf,
  type Fields,
  matchesSearch,
  type Page,
  RecordSelection,
  sortOrderOf,
} from '../../wire/index.js';
import { withinKey } from './subscription-access.js';
import {
  SUBSCRIPTION_SORT_KEYS,
  type SubscriptionListQueryDto,
  type TenantSubscriptionListQueryDto,
} from './subscription.dto.js';
import { listOf, type Subscription, subscriptionOf, subscriptionTexts } from './subscription.js';

/** The filters that lists and bulk actions have in common. */
export type SubscriptionFilter = Pick<
  SubscriptionListQueryDto,
  'tenant_id' | 'status' | 'event_type' | 'search'
> & { readonly tenants?: Tenants };

@Injectable()
export class SubscriptionLists {
  constructor(private readonly records: Records) {}

  /**
   * Subscriptions of all owners, by default those with the most consecutive failures first.
   * @param tenants that the operator is confined to
   * @throws Refusal INVALID_REQUEST
   */
  async all(request: SubscriptionListQueryDto, tenants: Tenants): Promise<Page<Subscription>> {
    const { cursor, limit, ...query } = request;
    const order = sortOrderOf(request, SUBSCRIPTION_SORT_KEYS, {
      sortBy: 'consecutive_failures',
      direction: 'desc',
    });
    const selection = new RecordSelection<Subscription>({
      query: { list: 'webhooks', ...query, tenants },
      order,
      cursor,
      limit,
      valueOf: (subscription) => subscription[order.sortBy],
      idOf: (subscription) => subscription.subscription_id,
    });
    await this.each({ ...query, tenants }, (subscription) => selection.offer(subscription));
    return this.complete(selection.page());
  }

  /**
   * Subscriptions of one tenant, newest first. An API key sees its own tenant's, inside its scope filter.
   * @throws Refusal INVALID_REQUEST: another query's cursor, an operator who names no tenant, an API key that names one.
   */
  async ofTenant(
    caller: Caller,
    { tenant, status, cursor, limit }: TenantSubscriptionListQueryDto,
  ): Promise<Page<Subscription>> {
    const tenantId = tenantOf(caller, tenant);
    const scopeFilter = caller.kind === 'tenant' ? caller.scopeFilter : [];
    const selection = new RecordSelection<Subscription>({
      query: { list: 'tenant-webhooks', tenant: tenantId, status, scope_filter: scopeFilter },
      order: { sortBy: 'created_at', direction: 'desc' },
      cursor,
      limit,
      valueOf: (subscription) => subscription.created_at,
      idOf: (subscription) => subscription.subscription_id,
    });
    await this.each({ tenant_id: tenantId, ...(status === undefined ? {} : { status }) }, (subscription) => {
      if (withinKey(caller, subscription.scope_filter)) {
        selection.offer(subscription);
      }
    });
    return this.complete(selection.page());
  }

  private complete(page: Page<Subscription>): Promise<Page<Subscription>> {
    return this.records.withTexts(
      'webhook',
      page,
      (row) => ({ tenantId: row.tenant_id, id: row.subscription_id }),
      subscriptionTexts,
    );
  }

  /** Visits every subscription that matches the whole filter, without its free texts. @throws StoreUnavailable */
  private each(filter: SubscriptionFilter, visit: (subscription: Subscription) => void): Promise<void> {
    return this.eachRecord(filter, (fields) => {
      const subscription = this.records.whole('webhook', fields, () =>
        subscriptionOf(fields, fieldOf(fields, 'id')),
      );
      if (subscription !== undefined && matches(filter, subscription)) {
        visit(subscription);
      }
    });
  }

  /** Visits the ids of all matching subscriptions, even if fields that the filter does not need are damaged. @throws StoreUnavailable */
  eachId(filter: SubscriptionFilter, visit: (subscriptionId: string) => void): Promise<void> {
    return this.eachRecord(filter, (fields) => {
      const subscription = this.records.whole('webhook', fields, () => ({
        subscription_id: fieldOf(fields, 'id'),
        url: fieldOf(fields, 'ur'),
        status: fieldOf(fields, 'st'),
        event_types: listOf(fields.get('et') ?? ''),
      }));
      if (subscription !== undefined && matches(filter, subscription)) {
        visit(subscription.subscription_id);
      }
    });
  }

  private async eachRecord(
    { tenant_id: owner, tenants }: SubscriptionFilter,
    offer: (fields: Fields) => void,
  ): Promise<void> {
    const visit = (fields: Fields): void => {
      if (mayActFor(tenants, fields.get('tn') ?? '')) {
        offer(fields);
      }
    };
    await this.records.eachOwned('list_webhooks', owner, visit);
    if (owner === undefined && tenants === undefined) {
      await this.records.eachOwned('list_webhooks', SYSTEM_OWNER, visit);
    }
  }
}

interface FilteredSubscription extends Pick<Subscription, 'subscription_id' | 'url' | 'event_types'> {
  readonly status: string;
}

function matches(
  { status, event_type: eventType, search }: SubscriptionFilter,
  subscription: FilteredSubscription,
): boolean {
  return (
    (status === undefined || subscription.status === status) &&
    (eventType === undefined || subscription.event_types.includes(eventType)) &&
    matchesSearch(search, subscription.subscription_id, subscription.url)
  );
}

function tenantOf(caller: Caller, named: string | undefined): string {
  if (caller.kind === 'tenant') {
    if (named !== undefined) {
      throw invalidField('tenant', 'tenant must be absent with an API key, which belongs to one tenant');
    }
    return caller.tenantId;
  }
  if (named === undefined || named === '') {
    throw invalidField('tenant', 'tenant query parameter is required when using admin key authentication');
  }
  return named;
}
