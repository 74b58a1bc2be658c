import { balancesJson } from '../../ledger/index.js';
import { capsJson } from '../admission.js';
import type { ReserveDto } from './reserve.dto.js';
import type { ReserveOutcome } from './reserve.service.js';

/**
 * ReservationCreateResponse of the protocol as JSON text. Every text in it is of this service's own closed alphabets, so
 * none needs escaping, or is JSON already; fields that do not apply are absent, never null.
 */
export function reserveResponse({ reply, scopes }: ReserveOutcome, { estimate }: ReserveDto): string {
  const affected = `"affected_scopes":["${scopes.join('","')}"],"scope_path":"${scopes.at(-1) as string}"`;
  const reserved = `"reserved":{"unit":"${estimate.unit}","amount":${estimate.amount}}`;
  const balances = (first: number): string => `"balances":${balancesJson(reply, first, estimate.unit)}`;
  const caps = (index: number): string => `"caps":${capsJson(reply[index] as string)}`;
  switch (reply[0]) {
    case 'DENY':
      return `{"decision":"DENY",${affected},"reason_code":"${reply[2] as string}"}`;
    case 'ALLOW_DRY_RUN':
      return `{"decision":"ALLOW",${affected},${reserved},${balances(2)}}`;
    case 'DRY_RUN_WITH_CAPS':
      return `{"decision":"ALLOW_WITH_CAPS",${affected},${reserved},${caps(2)},${balances(3)}}`;
    default:
  }
  const held =
    `"reservation_id":"${reply[2] as string}",${affected},${reserved},` +
    `"expires_at_ms":${reply[3] as string},"remaining_ttl_ms":${reply[4] as string}`;
  return reply[0] === 'ALLOW_WITH_CAPS'
    ? `{"decision":"ALLOW_WITH_CAPS",${held},${caps(6)},${balances(7)}}`
    : `{"decision":"ALLOW",${held},${balances(6)}}`;
}
