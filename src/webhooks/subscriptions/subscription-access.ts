import { Injectable } from '@nestjs/common';
import type { Caller } from '../../auth/index.js';
import { fieldOf, fieldsOf, Records, type Fields } from '../../governance/listing/index.js';
import {
  RedisService,
  tagOfWebhookId,
  tenantKey,
  webhookKey,
  webhookRevisionKey,
} from '../../redis/index.js';
import { targetOf, type DispatchTarget } from './dispatch-target.js';
import { requireWithinKey } from './key-reach.js';
import { webhookRefusal } from './webhook-refusals.js';

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
