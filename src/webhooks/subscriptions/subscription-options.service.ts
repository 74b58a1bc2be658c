import { Injectable } from '@nestjs/common';
import type { Caller } from '../../auth/index.js';
import { invalidField } from '../../ledger/index.js';
import { RedisService, SYSTEM_OWNER } from '../../redis/index.js';
import { fieldOf, type Fields, type Origin, readJson, stringifyJson, timeOf } from '../../wire/index.js';
import { reachOf, SubscriptionAccess, webhookRefusal } from './subscription-access.js';
import type { SubscriptionOptionsDto } from './subscription-options.dto.js';
import { type FieldPair, listOf, listText } from './subscription.js';

/** What /ops/webhooks/{subscription_id}/options shows. */
export interface SubscriptionOptions extends Required<SubscriptionOptionsDto> {
  readonly subscription_id: string;
  /** Why a subscription that is not active was stopped, when, and by which key. Absent if that was before version 0.8. */
  readonly stopped?: { readonly reason: string; readonly at: string; readonly by: string };
}

/** The settings of subscriptions that the protocol does not have. */
@Injectable()
export class SubscriptionOptionsService {
  constructor(
    private readonly redis: RedisService,
    private readonly access: SubscriptionAccess,
  ) {}

  /** @throws Refusal WEBHOOK_NOT_FOUND. */
  async read(caller: Caller, subscriptionId: string): Promise<SubscriptionOptions> {
    const { fields } = await this.access.read(caller, subscriptionId);
    return optionsOf(fields, subscriptionId);
  }

  /**
   * Replaces all of them.
   * @throws Refusal WEBHOOK_NOT_FOUND, INVALID_REQUEST, TENANT_CLOSED.
   */
  async replace(
    caller: Caller,
    subscriptionId: string,
    options: SubscriptionOptionsDto,
    origin: Origin,
  ): Promise<SubscriptionOptions> {
    const { key, fields } = await this.access.read(caller, subscriptionId);
    if (fieldOf(fields, 'tn') === SYSTEM_OWNER && (options.used_amounts ?? []).length > 0) {
      throw invalidField(
        'used_amounts',
        'used_amounts are for the subscription of a tenant, whose budgets are compared with them',
      );
    }
    const reply = await this.redis.scripts.call(
      'update_webhook',
      { webhook: key },
      {
        tenantId: reachOf(caller),
        subscriptionId,
        status: '',
        knownSecret: '',
        knownHeaders: '',
        rotationMs: 0,
        operation: 'setWebhookOptions',
        ...origin,
        rest: storedOptions(options).flat(),
      },
    );
    if (reply.status !== 'UPDATED') {
      throw webhookRefusal(reply, 'used_amounts');
    }
    return optionsOf(reply.record, subscriptionId);
  }
}

function storedOptions(options: SubscriptionOptionsDto): FieldPair[] {
  const {
    end_on_gone: endsOnGone = false,
    events_per_request: eventsPerRequest = 1,
    payload_filter: filter = {},
    thresholds_once_a_period: isOnce = false,
    used_amounts: amounts = [],
  } = options;
  return [
    ['eg', endsOnGone ? '1' : ''],
    ['oc', isOnce ? '1' : ''],
    ['er', eventsPerRequest === 1 ? '' : `${eventsPerRequest}`],
    ['pf', Object.keys(filter).length === 0 ? '' : stringifyJson(filter)],
    ['ta', listText(amounts.map(({ unit, amount }) => `${unit}:${amount}`))],
  ];
}

function optionsOf(fields: Fields, subscriptionId: string): SubscriptionOptions {
  const [reason = '', at = '', by = ''] = fields.get('sw')?.split(' ', 3) ?? [];
  return {
    subscription_id: subscriptionId,
    ...(reason === '' || fields.get('st') === 'ACTIVE' ? {} : { stopped: { reason, at: timeOf(at), by } }),
    end_on_gone: fields.get('eg') === '1',
    events_per_request: Number(fields.get('er') ?? 1),
    thresholds_once_a_period: fields.get('oc') === '1',
    payload_filter: readJson(fields.get('pf') ?? '{}') as SubscriptionOptions['payload_filter'],
    used_amounts: listOf(fields.get('ta') ?? '').map((text) => {
      const [unit, amount] = text.split(':');
      return { unit, amount: Number(amount) } as SubscriptionOptions['used_amounts'][number];
    }),
  };
}
