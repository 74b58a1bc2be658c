import { tenantOfScope } from '../ledger/index.js';
import { reservationKey, tagOfReservationId } from './keyspace.js';
import type { RedisService } from './redis.service.js';

/** The tenant of a reservation, in any form of its record; undefined if there is none, or it cannot be read. @throws StoreUnavailable */
export async function ownerOfReservation(
  { scripts, partitions }: RedisService,
  id: string,
): Promise<string | undefined> {
  const tag = tagOfReservationId(id, partitions);
  if (tag === undefined) {
    return undefined;
  }
  const found = await scripts.call('reservation_scope', { reservation: reservationKey(tag, id) }, {});
  return found.status === 'SCOPE' ? tenantOfScope(found.scopePath) : undefined;
}
