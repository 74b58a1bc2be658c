import { Refusal } from '../../ledger/index.js';

/** What a script's refusal of a subscription means to the caller. */
export function webhookRefusal([word, detail]: readonly string[]): Error {
  switch (word) {
    case 'NOT_FOUND':
      return new Refusal('WEBHOOK_NOT_FOUND', 'there is no such webhook subscription');
    case 'TENANT_NOT_FOUND':
      return new Refusal('TENANT_NOT_FOUND', 'tenant_id names no tenant', { field: 'tenant_id' });
    case 'TENANT_CLOSED':
      return new Refusal('TENANT_CLOSED', 'the tenant is closed; its webhook subscriptions no longer change');
    case 'NO_SELECTOR':
      return new Refusal(
        'INVALID_REQUEST',
        'event_types and event_categories must not both be empty: a subscription names what it receives',
        {
          field: 'event_types',
        },
      );
    case 'ADMIN_ONLY':
      return new Refusal(
        'INVALID_REQUEST',
        `a subscription of a tenant may receive budget, reservation and tenant events only; ${detail} is for the operators' own subscriptions`,
        { field: detail?.includes('.') === true ? 'event_types' : 'event_categories', selector: detail },
      );
    case 'TOO_MANY':
      return new Refusal(
        'INVALID_REQUEST',
        `there can be at most ${detail} webhook subscriptions for one owner`,
        { limit: Number(detail) },
      );
    case 'TOO_MANY_MARKS':
      return new Refusal(
        'INVALID_REQUEST',
        `the active subscriptions of one tenant can ask for at most ${detail} different values of thresholds.budget_utilization`,
        {
          field: 'thresholds.budget_utilization',
          limit: Number(detail),
        },
      );
    default:
      return new Error(`a webhook script answered ${word}`);
  }
}
