export { ifUnbroken, isUnbound, SealBroken, SecretBox, type SealPlace } from './secret-box.js';
export { SecretsModule } from './secrets.module.js';
