export { StoreBootError, StoreUnavailable, toStoreError, type StoreUnavailableReason } from './errors.js';
export * from './keyspace.js';
export type { GuardProblem, GuardState, MemoryReport, NodeMemory } from './memory-guard.js';
export { QueryAbandoned, QueryRefused, type Query } from './queries.js';
export { RedisModule } from './redis.module.js';
export { RedisService, type StoreStatus } from './redis.service.js';
export { ScriptRegistry, type Reply, type ScriptCall } from './scripts.js';
export { isStreamId, streamBound } from './stream-place.js';
export type { ScriptArgs, ScriptKeys, ScriptName } from './script-signatures.js';
