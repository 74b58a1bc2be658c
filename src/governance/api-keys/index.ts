export type { ApiKey } from './api-key.js';
export { ApiKeysModule } from './api-keys.module.js';
export { ApiKeysService, type CreatedApiKey } from './api-keys.service.js';
