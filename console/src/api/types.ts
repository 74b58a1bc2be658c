import type { Schema } from './operations';

export type Unit = Schema<'Amount'>['unit'];
export type Budget = Schema<'BudgetLedger'>;
export type Credit = Schema<'Credit'>;
export type Tenant = Schema<'Tenant'>;
export type Reservation = Schema<'ReservationSummary'>;
export type CyclesEvent = Schema<'Event'>;
export type Webhook = Schema<'WebhookSubscription'>;
export type Delivery = Schema<'WebhookDelivery'>;
