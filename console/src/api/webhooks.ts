import type { Page } from './list';

/** WebhookSubscription of the API, as far as pages use it. */
export interface Webhook {
  readonly subscription_id: string;
  readonly tenant_id: string;
  readonly name?: string;
  readonly description?: string;
  readonly url: string;
  readonly event_types: readonly string[];
  readonly event_categories: readonly string[];
  readonly scope_filter?: string;
  readonly thresholds?: Readonly<Record<string, unknown>>;
  /** Their values are masked. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly status: 'ACTIVE' | 'PAUSED' | 'DISABLED';
  readonly retry_policy: { readonly max_retries: number };
  readonly disable_after_failures: number;
  readonly consecutive_failures: number;
  readonly created_at: string;
  readonly last_triggered_at?: string;
  readonly last_success_at?: string;
  readonly last_failure_at?: string;
}

/** WebhookDelivery of the API. */
export interface Delivery {
  readonly delivery_id: string;
  readonly event_id: string;
  readonly event_type: string;
  readonly status: 'PENDING' | 'SUCCESS' | 'FAILED' | 'RETRYING';
  /** The first attempt; before it, when the delivery was queued. */
  readonly attempted_at: string;
  readonly completed_at?: string;
  readonly attempts: number;
  readonly response_status?: number;
  readonly response_time_ms?: number;
  readonly error_message?: string;
  readonly next_retry_at?: string;
}

export interface DeliveryList extends Page {
  readonly deliveries: readonly Delivery[];
}

export const WEBHOOKS = '/v1/admin/webhooks';

export const webhookPath = (id: string): string => `${WEBHOOKS}/${encodeURIComponent(id)}`;

/** The owner of subscriptions to the events of all tenants. */
export const SYSTEM_OWNER = '__system__';

export const ownerWord = (owner: string): string => (owner === SYSTEM_OWNER ? 'the system' : owner);
