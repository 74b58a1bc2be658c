export const WEBHOOKS = '/v1/admin/webhooks';

export const WEBHOOK = `${WEBHOOKS}/{subscription_id}` as const;
export const DELIVERIES = `${WEBHOOK}/deliveries` as const;

/** The owner of subscriptions to the events of all tenants. */
export const SYSTEM_OWNER = '__system__';

export const ownerWord = (owner: string): string => (owner === SYSTEM_OWNER ? 'the system' : owner);
