export * from './admin-key.js';
export * from './config.js';
export * from './config.module.js';
export * from './expected-secret.js';
export * from './webhook-key.js';
export { CONFIG_VARIABLES, ROLES, type Endpoint, type Role, type Variable } from './variables.js';
export { HOLDFAST_VERSION } from './version.js';
