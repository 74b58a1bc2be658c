export * from './health.module.js';
export * from './health-contributors.js';
export * from './shutdown-state.js';
