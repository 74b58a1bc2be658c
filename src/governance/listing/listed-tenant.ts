import type { Caller } from '../../auth/index.js';
import { Refusal } from '../../ledger/index.js';

/**
 * Whose records a list shows: those of the key's tenant, or for an operator those of the tenant that is named, if any.
 * @throws Refusal FORBIDDEN when an API key names another tenant: its own records would pass for those of the other one.
 */
export function listedTenant(caller: Caller, named: string | undefined): string | undefined {
  if (caller.kind === 'admin') {
    return named;
  }
  if (named !== undefined && named !== '' && named !== caller.tenantId) {
    throw new Refusal(
      'FORBIDDEN',
      'tenant_id is not the tenant of the API key; leave it out, or use the admin key',
      { field: 'tenant_id' },
    );
  }
  return caller.tenantId;
}
