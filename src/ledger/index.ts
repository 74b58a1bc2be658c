export * from './amount.js';
export * from './balance.js';
export * from './error-codes.js';
export * from './fingerprint.js';
export * from './random.js';
export * from './refusal.js';
export * from './scopes.js';
export * from './units.js';
