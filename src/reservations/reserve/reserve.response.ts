import { balancesJson } from '../../ledger/index.js';
import type { ReserveDto } from './reserve.dto.js';
import type { ReserveOutcome } from './reserve.service.js';

/**
 * ReservationCreateResponse of the protocol as JSON text. Every text in it is of this service's own closed alphabets, so
 * none needs escaping; fields that do not apply are absent, never null.
 */
export function reserveResponse({ reply, scopes }: ReserveOutcome, { estimate }: ReserveDto): string {
  const affected = `"affected_scopes":["${scopes.join('","')}"],"scope_path":"${scopes.at(-1) as string}"`;
  if (reply[0] === 'DENY') {
    return `{"decision":"DENY",${affected},"reason_code":"${reply[2] as string}"}`;
  }
  const reserved = `"reserved":{"unit":"${estimate.unit}","amount":${estimate.amount}}`;
  if (reply[0] === 'ALLOW_DRY_RUN') {
    return `{"decision":"ALLOW",${affected},${reserved},"balances":${balancesJson(reply, 2, estimate.unit)}}`;
  }
  return (
    `{"decision":"ALLOW","reservation_id":"${reply[2] as string}",${affected},${reserved},` +
    `"expires_at_ms":${reply[3] as string},"remaining_ttl_ms":${reply[4] as string},` +
    `"balances":${balancesJson(reply, 6, estimate.unit)}}`
  );
}
