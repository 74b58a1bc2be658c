import { IsInt } from '../wire/index.js';

/** Body of PUT /ops/tenants/{tenant_id}/charge-on-expiry and /ops/policies/{policy_id}/charge-on-expiry. */
export class ChargeOnExpiryDto {
  /** Of the estimate, rounded up. */
  @IsInt({ min: 0, max: 100 })
  percent!: number;
}

/** The field of a tenant's or policy's record. */
export const CHARGE_FIELD = 'charge_on_expiry_percent';
