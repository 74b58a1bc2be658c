import { hash } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { fingerprintOf, Refusal, TooManyMatched } from '../../ledger/index.js';
import {
  bulkActionKey,
  orStoreError,
  partitionCode,
  partitionOfTenant,
  RedisService,
  type ScriptReply,
  StoreUnavailable,
  SYSTEM_OWNER,
  tagOf,
  tagOfWebhookId,
  webhookKey,
} from '../../redis/index.js';
import { LOGGER, type Logger } from '../../telemetry/index.js';
import { type Origin, stringifyJson } from '../../wire/index.js';
import { webhookRefusal } from './subscription-access.js';
import { SubscriptionLists } from './subscription-lists.js';
import type { WebhookBulkActionDto } from './subscription.dto.js';

/** The most subscriptions that one action changes. */
const LIMIT = 500;
/** How long a retry gets the first response. */
const KEEP_MS = 15 * 60_000;
const OPERATION = 'bulkActionWebhooks';

/** BulkActionRowOutcome of cycles-governance-admin-v0.1.25. */
interface RowOutcome {
  readonly id: string;
  readonly error_code?: string;
  readonly message?: string;
  readonly reason?: string;
}

interface Outcomes {
  readonly succeeded: RowOutcome[];
  readonly failed: RowOutcome[];
  readonly skipped: RowOutcome[];
}

/** The action under an idempotency key, begun by this request or by an earlier one. */
interface Begun {
  readonly key: string;
  readonly correlationId: string;
  readonly origin: Origin;
  readonly ids: readonly string[];
}

/**
 * Applies one action to all subscriptions that match a filter. Before the first change, the list of subscriptions is stored under the
 * idempotency key, and each subscription records that it was changed. So the same request can be retried after any failure: it
 * continues where the previous one ended, and nothing is applied twice.
 */
@Injectable()
export class BulkActionService {
  constructor(
    private readonly redis: RedisService,
    private readonly lists: SubscriptionLists,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  /**
   * @returns the JSON of a WebhookBulkActionResponse, the same for every retry within 15 minutes
   * @throws Refusal INVALID_REQUEST (an empty filter), COUNT_MISMATCH, IDEMPOTENCY_MISMATCH; TooManyMatched;
   * StoreUnavailable, after which a retry continues.
   */
  async apply(request: WebhookBulkActionDto, origin: Origin): Promise<string> {
    if (!Object.values(request.filter).some((part) => part !== '')) {
      throw new Refusal(
        'INVALID_REQUEST',
        'filter must not be empty, so that nobody changes every subscription by mistake',
        { field: 'filter' },
      );
    }
    const startedAt = performance.now();
    const begun = await this.begin(request, origin);
    if (typeof begun === 'string') {
      return begun;
    }
    const outcomes = await this.changeAll(request, begun);
    const response = stringifyJson({
      action: request.action,
      total_matched: begun.ids.length,
      ...outcomes,
      idempotency_key: request.idempotency_key,
    });
    return this.end(request, begun, outcomes, response, Math.round(performance.now() - startedAt));
  }

  /** Begins or resumes the action. @returns the stored response if the action has already ended */
  private async begin(request: WebhookBulkActionDto, origin: Origin): Promise<Begun | string> {
    const { idempotency_key: idempotencyKey, action, ...rest } = request;
    const key = bulkActionKey(
      tagOf(partitionCode(partitionOfTenant(SYSTEM_OWNER, this.redis.partitions))),
      `webhooks:${hash('sha256', idempotencyKey, 'base64url')}`,
    );
    const fingerprint = fingerprintOf({ action, ...rest });
    const { requestId, trace } = origin;
    const correlation = `webhook_bulk_action:${action.toLowerCase()}:${requestId}`;
    const matched = (await this.isKnown(key)) ? [] : await this.matched(request);
    const reply = await this.redis.scripts.call(
      'begin_bulk_action',
      { bulk: key },
      {
        fingerprint,
        keepMs: KEEP_MS,
        correlationId: correlation,
        requestId,
        trace,
        ids: matched.join(','),
      },
    );
    if (reply.status === 'IDEMPOTENCY_MISMATCH') {
      throw new Refusal('IDEMPOTENCY_MISMATCH', 'the idempotency key was used with another bulk action');
    }
    if (reply.status === 'ENDED') {
      return reply.response;
    }
    return {
      key,
      correlationId: reply.correlationId,
      origin: { ...origin, requestId: reply.requestId, trace: reply.trace ?? '' },
      ids: reply.ids?.split(',') ?? [],
    };
  }

  private async isKnown(key: string): Promise<boolean> {
    return (await orStoreError(this.redis.client.exists(key))) === 1;
  }

  private async matched({ filter, expected_count: expected }: WebhookBulkActionDto): Promise<string[]> {
    const ids: string[] = [];
    await this.lists.each(filter, ({ subscription_id: id }) => ids.push(id));
    if (expected !== undefined && expected !== ids.length) {
      throw new Refusal(
        'COUNT_MISMATCH',
        `the filter matches ${ids.length} subscriptions, not ${expected}; nothing was changed`,
        { total_matched: ids.length, expected_count: expected },
      );
    }
    if (ids.length > LIMIT) {
      throw new TooManyMatched(ids.length, LIMIT);
    }
    return ids.sort();
  }

  private async changeAll({ action }: WebhookBulkActionDto, begun: Begun): Promise<Outcomes> {
    const outcomes: Outcomes = { succeeded: [], failed: [], skipped: [] };
    for (const id of begun.ids) {
      const reply = await this.changeOne(action, id, begun);
      if (reply.status === 'SUCCEEDED') {
        outcomes.succeeded.push({ id });
      } else if (reply.status === 'SKIPPED') {
        outcomes.skipped.push({ id, reason: reply.reason });
      } else {
        outcomes.failed.push({ id, ...failureOf(reply) });
      }
    }
    return outcomes;
  }

  /** The failure of one subscription does not affect the others. An unavailable store ends the request. */
  private async changeOne(action: string, id: string, { correlationId, origin }: Begun): Promise<Changed> {
    const tag = tagOfWebhookId(id, this.redis.partitions) ?? '';
    try {
      return await this.redis.scripts.call(
        'bulk_webhook',
        { webhook: webhookKey(tag, id) },
        { subscriptionId: id, action, keepMs: KEEP_MS, correlationId, ...origin },
      );
    } catch (error) {
      if (error instanceof StoreUnavailable) {
        throw error;
      }
      this.logger.error({ err: error, subscription: id }, 'a bulk action could not change a subscription');
      return { status: 'INTERNAL_ERROR' };
    }
  }

  private async end(
    request: WebhookBulkActionDto,
    begun: Begun,
    outcomes: Outcomes,
    response: string,
    durationMs: number,
  ): Promise<string> {
    const { key, correlationId, origin } = begun;
    const details = {
      action: request.action,
      filter: stringifyJson(request.filter),
      succeeded_ids: stringifyJson(outcomes.succeeded.map(({ id }) => id)),
      failed_rows: stringifyJson(outcomes.failed),
      skipped_rows: stringifyJson(outcomes.skipped),
      duration_ms: durationMs,
    };
    const ended = await this.redis.scripts.call(
      'end_bulk_action',
      { bulk: key },
      {
        response,
        operation: OPERATION,
        resourceType: 'webhook',
        correlationId,
        ...origin,
        rest: Object.entries(details).flat(),
      },
    );
    return ended.response;
  }
}

type Changed = ScriptReply<'bulk_webhook'> | { readonly status: 'INTERNAL_ERROR' };

function failureOf(reply: Exclude<Changed, { status: 'SUCCEEDED' | 'SKIPPED' }>): {
  error_code: string;
  message: string;
} {
  const word = reply.status;
  switch (word) {
    case 'INVALID_TRANSITION':
      return {
        error_code: word,
        message: `a ${reply.currentStatus} subscription cannot be resumed; set its status to ACTIVE`,
      };
    case 'INTERNAL_ERROR':
      return { error_code: word, message: 'the subscription could not be changed' };
    default: {
      const refusal = webhookRefusal(reply);
      return {
        error_code: refusal instanceof Refusal && word !== 'NOT_FOUND' ? refusal.code : word,
        message: refusal.message,
      };
    }
  }
}
