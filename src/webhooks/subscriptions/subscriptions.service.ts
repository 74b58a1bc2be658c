import { randomBytes } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import type { Caller } from '../../auth/index.js';
import { ExpectedSecret } from '../../config/index.js';
import { DAY_MS, invalidField, randomBase62, TENANT_ID_PATTERN } from '../../ledger/index.js';
import { TenantLimits } from '../../limits/index.js';
import {
  codeOfTenant,
  RedisService,
  SYSTEM_OWNER,
  tagOf,
  tenantKey,
  webhookIndexKey,
  webhookKey,
} from '../../redis/index.js';
import { fieldOf, type Fields, type Origin } from '../../wire/index.js';
import { type SealPlace, SecretBox, unlessBroken } from '../signing/secret-box.js';
import { TargetPolicy } from '../target-policy/target-policy.js';
import { MASK, mergeHeaders, NO_HEADERS, sealHeaders } from './headers.js';
import { reachOf, requireWithinKey, SubscriptionAccess, webhookRefusal } from './subscription-access.js';
import type { SubscriptionCreateDto, SubscriptionUpdateDto } from './subscription.dto.js';
import {
  defaultFields,
  type FieldPair,
  listText,
  storedFields,
  type Subscription,
  subscriptionOf,
} from './subscription.js';

/** How long a replaced secret keeps signing alongside the new one, so that receivers can switch at any time in between. */
const ROTATION_MS = DAY_MS;
const SECRET_BYTES = 32;
/** How often an update is tried when other requests change the same secret or headers. */
const ATTEMPTS = 10;

/** The protocol's two sets of operations. The audit row names the operation. */
export type Plane = 'admin' | 'tenant';

const OPERATIONS = {
  admin: {
    create: 'createWebhookSubscription',
    update: 'updateWebhookSubscription',
    remove: 'deleteWebhookSubscription',
  },
  tenant: { create: 'createTenantWebhook', update: 'updateTenantWebhook', remove: 'deleteTenantWebhook' },
} as const;

/** WebhookCreateResponse of cycles-governance-admin-v0.1.25, the only response that contains the secret. */
export interface CreatedSubscription {
  readonly subscription: Subscription;
  readonly signing_secret: string;
}

@Injectable()
export class SubscriptionsService {
  constructor(
    private readonly redis: RedisService,
    private readonly access: SubscriptionAccess,
    private readonly box: SecretBox,
    private readonly targets: TargetPolicy,
    private readonly limits: TenantLimits,
  ) {}

  /**
   * Subscribes an endpoint to one tenant's events, or, for operators, to all tenants' events.
   * @param owner the tenant that will own the subscription, or `__system__` for operators
   * @throws Refusal INVALID_REQUEST, WEBHOOK_URL_INVALID, INSUFFICIENT_PERMISSIONS, TENANT_NOT_FOUND, TENANT_CLOSED, LIMIT_EXCEEDED.
   */
  async create(
    caller: Caller,
    plane: Plane,
    owner: string,
    request: SubscriptionCreateDto,
    origin: Origin,
  ): Promise<CreatedSubscription> {
    if (owner !== SYSTEM_OWNER && !TENANT_ID_PATTERN.test(owner)) {
      throw webhookRefusal({ status: 'TENANT_NOT_FOUND' });
    }
    requireWithinKey(caller, request.scope_filter?.toLowerCase());
    const { headers = {}, signing_secret: secret = `whsec_${randomBytes(SECRET_BYTES).toString('base64')}` } =
      request;
    if (Object.values(headers).includes(MASK)) {
      throw invalidField(
        'headers',
        `headers: ${MASK} stands for a stored value, but a new subscription has none`,
      );
    }
    const url = await this.targets.check(request.url, owner);
    const code = codeOfTenant(owner, this.redis.partitions);
    const tag = tagOf(code);
    const subscriptionId = `whsub_${code}${randomBase62(16)}`;
    const stored = sealHeaders(this.box, subscriptionId, headers);
    const fields: FieldPair[] = [
      ...defaultFields(),
      ['ur', url],
      ['se', this.box.seal(secret, { subscriptionId, kind: 'signing_secret' })],
      ...headerFields(stored === NO_HEADERS ? undefined : stored),
      ...storedFields(request).filter(([, value]) => value !== ''),
    ];
    const reply = await this.redis.scripts.call(
      'create_webhook',
      {
        webhook: webhookKey(tag, subscriptionId),
        webhookIndex: webhookIndexKey(tag, owner),
        tenant: tenantKey(tag, owner),
      },
      {
        tenantId: owner,
        subscriptionId,
        eventTypes: listText(request.event_types),
        eventCategories: listText(request.event_categories ?? []),
        operation: OPERATIONS[plane].create,
        ...origin,
        maxWebhooks: this.limits.deployment.webhooks,
        rest: fields.flat(),
      },
    );
    if (reply.status === 'LIMIT_EXCEEDED') {
      throw this.limits.refusal(reply);
    }
    if (reply.status !== 'CREATED') {
      throw webhookRefusal(reply);
    }
    return { subscription: subscriptionOf(reply.record, subscriptionId), signing_secret: secret };
  }

  /** @throws Refusal WEBHOOK_NOT_FOUND (also for another tenant's), INSUFFICIENT_PERMISSIONS. */
  async get(caller: Caller, subscriptionId: string): Promise<Subscription> {
    const { fields } = await this.access.read(caller, subscriptionId, { whole: true });
    return subscriptionOf(fields, subscriptionId);
  }

  /**
   * Changes the given settings; lists and objects are replaced as a whole. After a change of the secret, the old one keeps signing
   * alongside the new one for a day. A masked header keeps its value.
   * @throws Refusal WEBHOOK_NOT_FOUND, INVALID_REQUEST, WEBHOOK_URL_INVALID, INSUFFICIENT_PERMISSIONS, TENANT_CLOSED.
   */
  async update(
    caller: Caller,
    plane: Plane,
    subscriptionId: string,
    request: SubscriptionUpdateDto,
    origin: Origin,
  ): Promise<Subscription> {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      const { key, fields } = await this.access.read(caller, subscriptionId);
      const changes = await this.changesOf(caller, subscriptionId, fields, request);
      const reply = await this.redis.scripts.call(
        'update_webhook',
        { webhook: key },
        {
          tenantId: reachOf(caller),
          subscriptionId,
          status: request.status ?? '',
          knownSecret: fieldOf(fields, 'se'),
          knownHeaders: fields.get('hd') ?? '',
          rotationMs: ROTATION_MS,
          operation: OPERATIONS[plane].update,
          ...origin,
          rest: changes.flat(),
        },
      );
      if (reply.status === 'UPDATED') {
        return subscriptionOf(reply.record, subscriptionId);
      }
      if (reply.status !== 'STALE') {
        throw webhookRefusal(reply);
      }
    }
    throw new Error(`other requests changed the subscription ${subscriptionId} ${ATTEMPTS} times in a row`);
  }

  /** @throws Refusal WEBHOOK_NOT_FOUND, INSUFFICIENT_PERMISSIONS, TENANT_CLOSED. */
  async remove(caller: Caller, plane: Plane, subscriptionId: string, origin: Origin): Promise<void> {
    const { key } = await this.access.read(caller, subscriptionId);
    const reply = await this.redis.scripts.call(
      'delete_webhook',
      { webhook: key },
      { tenantId: reachOf(caller), subscriptionId, operation: OPERATIONS[plane].remove, ...origin },
    );
    if (reply.status !== 'DELETED') {
      throw webhookRefusal(reply);
    }
  }

  private async changesOf(
    caller: Caller,
    subscriptionId: string,
    fields: Fields,
    request: SubscriptionUpdateDto,
  ): Promise<FieldPair[]> {
    const {
      url,
      event_types: types,
      event_categories: categories,
      headers,
      signing_secret: secret,
    } = request;
    const changes = storedFields(request);
    const place: SealPlace = { subscriptionId, kind: 'signing_secret' };
    const scopeFilter = changes.find(([field]) => field === 'sf')?.[1];
    requireWithinKey(caller, scopeFilter ?? fields.get('sf'));
    return [
      ...changes,
      ...(url === undefined || url === fields.get('ur')
        ? []
        : [['ur', await this.targets.check(url, fieldOf(fields, 'tn'))] as const]),
      ...(types === undefined ? [] : [['et', listText(types)] as const]),
      ...(categories === undefined ? [] : [['ec', listText(categories)] as const]),
      ...headerFields(
        headers === undefined ? undefined : mergeHeaders(this.box, subscriptionId, fields.get('hd'), headers),
      ),
      ...(secret === undefined || this.isSecret(fieldOf(fields, 'se'), place, secret)
        ? []
        : [['se', this.box.seal(secret, place)] as const]),
    ];
  }

  private isSecret(sealed: string, place: SealPlace, secret: string): boolean {
    return unlessBroken(() => new ExpectedSecret(this.box.open(sealed, place)).matches(secret)) ?? false;
  }
}

function headerFields(stored: { readonly sealed: string; readonly names: string } | undefined): FieldPair[] {
  return stored === undefined
    ? []
    : [
        ['hd', stored.sealed],
        ['hn', stored.names],
      ];
}
