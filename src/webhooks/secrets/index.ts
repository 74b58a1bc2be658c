export { ifUnbroken, SealBroken, SecretBox } from './secret-box.js';
export { SecretsModule } from './secrets.module.js';
