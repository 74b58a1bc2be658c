import { type Confinement, ownerOfSubscription } from '../../http/index.js';
import { deliveryPlaceOf, partsOfRef } from '../dispatch/delivery.js';

/** How operations on one delivery are confined: to the tenant that owns the subscription, which also receives events of others. */
export const OF_DELIVERY: Confinement = {
  what: 'delivery',
  param: 'delivery_id',
  ownerOf: async (redis, id) => {
    const place = deliveryPlaceOf(id);
    return place === undefined ? undefined : ownerOfSubscription(redis, partsOfRef(place.ref).subscriptionId);
  },
};
