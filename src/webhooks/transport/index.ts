export { type AttemptOutcome, type FailureReason } from './attempt.js';
export { TransportModule } from './transport.module.js';
export { WebhookTransport, type DialPolicy, type WebhookRequest } from './webhook-transport.js';
