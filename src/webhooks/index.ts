export { DEFAULT_RATES, type DispatchTarget, type RateThresholds } from './subscriptions/dispatch-target.js';
export { SubscriptionCache } from './subscriptions/subscription-cache.js';
export { WebhooksModule } from './webhooks.module.js';
