export { matches, type DispatchTarget } from './dispatch-target.js';
export { SubscriptionAccess } from './subscription-access.js';
export { SubscriptionAccessModule } from './subscription-access.module.js';
export { SubscriptionBook } from './subscription-book.js';
export { SubscriptionsModule } from './subscriptions.module.js';
export { webhookRefusal } from './webhook-refusals.js';
