export { DEFAULT_RATES, type RateThresholds } from './subscriptions/dispatch-target.js';
export { SubscriptionCache } from './subscriptions/subscription-cache.js';
export { WebhooksModule } from './webhooks.module.js';
