import type { FastifyRequest } from 'fastify';
import type { Tenants } from '../auth/index.js';
import { type ErrorCode, parseScopePath, tenantOfScope } from '../ledger/index.js';
import {
  apiKeyKey,
  creditKey,
  eventLogKey,
  orStoreError,
  ownerOfReservation,
  policyKey,
  type RedisService,
  tagOfCreditId,
  tagOfDebitId,
  tagOfKeyId,
  tagOfPolicyId,
  tagOfWebhookId,
  webhookKey,
} from '../redis/index.js';

/** Where a request names something, as `query.tenant_id` or `body.filter.tenant_id`. */
export type Place = `${'params' | 'query' | 'body'}.${string}`;

/** What has an owner, and is named by a parameter of the path. */
export interface Owned {
  readonly param: string;
  /** For the refusal of what no tenant of the operator owns; by default, its code is NOT_FOUND. */
  readonly what: string;
  readonly code?: ErrorCode;
  /** The tenant that owns it; undefined if there is none, or it has none. @throws StoreUnavailable */
  readonly ownerOf: (redis: RedisService, id: string) => Promise<string | undefined>;
}

/**
 * How an operation is confined, for an operator that may act only for some tenants: it names its tenant, a scope or what a tenant owns;
 * or its handler shows what is of these tenants, or of the one of them that is named; or it shows nothing of any.
 */
export type Confinement =
  | { readonly tenantAt: Place }
  | { readonly filteredAt: Place }
  | { readonly scopeAt: Place }
  | Owned
  | 'filtered'
  | 'nothing';

/** The owner that a record names in a field. */
function ownerIn(
  field: string,
  tagOfId: (id: string, partitions: number) => string | undefined,
  keyOf: (tag: string, id: string) => string,
): Owned['ownerOf'] {
  return async ({ client, partitions }, id) => {
    const tag = tagOfId(id, partitions);
    const owner = tag === undefined ? null : await orStoreError(client.hget(keyOf(tag, id), field));
    return owner ?? undefined;
  };
}

const debitOwner: Owned['ownerOf'] = async ({ scripts, partitions }, eventId) => {
  const tag = tagOfDebitId(eventId, partitions);
  if (tag === undefined) {
    return undefined;
  }
  const found = await scripts.call('debit_scope', { eventLog: eventLogKey(tag) }, { eventId });
  return found.status === 'SCOPE' ? tenantOfScope(found.scopePath) : undefined;
};
export const ownerOfSubscription = ownerIn('tn', tagOfWebhookId, webhookKey);

export const OF_RESERVATION: Confinement = {
  what: 'reservation',
  param: 'reservation_id',
  ownerOf: ownerOfReservation,
};
export const OF_DEBIT: Confinement = { what: 'direct debit', param: 'event_id', ownerOf: debitOwner };
export const OF_POLICY: Confinement = {
  what: 'policy',
  param: 'policy_id',
  ownerOf: ownerIn('tenant_id', tagOfPolicyId, policyKey),
};
export const OF_CREDIT: Confinement = {
  what: 'credit',
  param: 'credit_id',
  ownerOf: ownerIn('tenant_id', tagOfCreditId, creditKey),
};
export const ownerOfApiKey = ownerIn('tenant_id', tagOfKeyId, apiKeyKey);
export const OF_API_KEY: Confinement = { what: 'API key', param: 'key_id', ownerOf: ownerOfApiKey };
export const OF_SUBSCRIPTION: Confinement = {
  what: 'webhook subscription',
  param: 'subscription_id',
  code: 'WEBHOOK_NOT_FOUND',
  ownerOf: ownerOfSubscription,
};

/** The tenants that the operator of a request is confined to, of whom its handler may show something. */
export function tenantsOf({ caller }: FastifyRequest): Tenants {
  return caller?.kind === 'admin' ? caller.tenants : undefined;
}

/** The text that a request has at a place; undefined if it has none. */
export function textAt(request: FastifyRequest, place: Place): string | undefined {
  let value: unknown = request;
  for (const name of place.split('.')) {
    value =
      typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
  }
  return typeof value === 'string' && value.trim() !== '' ? value.trim().toLowerCase() : undefined;
}

/** The tenant of a scope, however wrong the rest of it is: that is for the operation to say. */
export function tenantOfText(scope: string): string | undefined {
  try {
    return tenantOfScope(parseScopePath(scope));
  } catch {
    return undefined;
  }
}
