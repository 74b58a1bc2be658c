import type { Confinement } from '../http/index.js';
import { eventLogKey, orStoreError, tagOf } from '../redis/index.js';
import { fieldsOf } from '../wire/index.js';
import { eventPlaceOf } from './event.js';

/** How operations on one event are confined: to the tenant of the event. */
export const OF_EVENT: Confinement = {
  what: 'event',
  param: 'event_id',
  code: 'EVENT_NOT_FOUND',
  ownerOf: async ({ client, partitions }, id) => {
    const place = eventPlaceOf(id);
    if (place === undefined || Number.parseInt(place.partition, 16) >= partitions) {
      return undefined;
    }
    const { partition, entryId } = place;
    const [entry] = await orStoreError(client.xrange(eventLogKey(tagOf(partition)), entryId, entryId));
    return entry === undefined ? undefined : fieldsOf(entry[1]).get('tn');
  },
};
