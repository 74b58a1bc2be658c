export { DEFAULT_RATES, type DispatchTarget, type RateThresholds } from './subscriptions/dispatch-target.js';
export { SubscriptionAccessModule } from './subscriptions/subscription-access.js';
export { SubscriptionCache } from './subscriptions/subscription-cache.js';
export { WebhooksModule } from './webhooks.module.js';
