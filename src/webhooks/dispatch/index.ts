export {
  deliveryIdOf,
  deliveryPlaceOf,
  isRef,
  partsOfRef,
  type DeliveryPlace,
  type DeliveryRef,
} from './delivery-id.js';
export { DispatchModule } from './dispatch.module.js';
