export { openHeaders, openMaterial, type SealedMaterial, type SigningMaterial } from './material.js';
export { isReservedHeader } from './reserved-headers.js';
export { signedHeaders, type SignedEvent, type SigningOrder } from './signed-headers.js';
