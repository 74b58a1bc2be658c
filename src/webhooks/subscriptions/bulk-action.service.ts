import { Injectable } from '@nestjs/common';
import { BulkActions, type BulkRun, type Changed, requireFilter, type RowFailure } from '../../bulk/index.js';
import { Refusal } from '../../ledger/index.js';
import {
  RedisService,
  type ScriptReply,
  SYSTEM_OWNER,
  tagOfWebhookId,
  webhookKey,
} from '../../redis/index.js';
import type { Origin } from '../../wire/index.js';
import { webhookRefusal } from './subscription-access.js';
import { SubscriptionLists } from './subscription-lists.js';
import type { WebhookBulkActionDto } from './subscription.dto.js';

/** POST /v1/admin/webhooks/bulk-action. */
@Injectable()
export class BulkActionService {
  constructor(
    private readonly redis: RedisService,
    private readonly lists: SubscriptionLists,
    private readonly bulk: BulkActions,
  ) {}

  /**
   * @returns the JSON of a WebhookBulkActionResponse
   * @throws Refusal INVALID_REQUEST (an empty filter), COUNT_MISMATCH, IDEMPOTENCY_MISMATCH; TooManyMatched;
   * StoreUnavailable, after which a retry continues.
   */
  async apply(request: WebhookBulkActionDto, origin: Origin): Promise<string> {
    const { action, filter } = request;
    requireFilter(filter, 'every subscription');
    return this.bulk.apply({
      kind: 'webhooks',
      request,
      origin,
      auditedActor: origin.actor,
      owner: SYSTEM_OWNER,
      match: (found) => this.lists.eachId(filter, found),
      change: (id, run) => this.change(action, id, run),
    });
  }

  private async change(action: string, id: string, run: BulkRun): Promise<Changed> {
    const tag = tagOfWebhookId(id, this.redis.partitions) ?? '';
    const reply = await this.redis.scripts.call(
      'bulk_webhook',
      { webhook: webhookKey(tag, id) },
      { ...run, subscriptionId: id, action },
    );
    switch (reply.status) {
      case 'SUCCEEDED':
        return 'succeeded';
      case 'SKIPPED':
        return { skipped: reply.reason };
      default:
        return { failed: failureOf(reply) };
    }
  }
}

function failureOf(
  reply: Exclude<ScriptReply<'bulk_webhook'>, { status: 'SUCCEEDED' | 'SKIPPED' }>,
): RowFailure {
  const word = reply.status;
  if (word === 'INVALID_TRANSITION') {
    return {
      error_code: word,
      message: `a ${reply.currentStatus} subscription cannot be resumed; set its status to ACTIVE`,
    };
  }
  const refusal = webhookRefusal(reply);
  return {
    error_code: refusal instanceof Refusal && word !== 'NOT_FOUND' ? refusal.code : word,
    message: refusal.message,
  };
}
