export * from './metrics.module.js';
export * from './metrics-registry.js';
export * from './request-metrics.js';
export * from './maintenance-metrics.js';
