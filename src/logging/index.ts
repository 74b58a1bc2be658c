export * from './logger.js';
export * from './logging.module.js';
