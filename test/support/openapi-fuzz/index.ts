export * from './answers.js';
export * from './known.js';
export * from './ledger-watch.js';
export * from './operations.js';
export * from './requests.js';
export * from './wire.js';
