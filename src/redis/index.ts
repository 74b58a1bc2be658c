export { ChangeAbandoned, Changes } from './changes.js';
export { type Claim, ConcurrencyLimiter } from './concurrency-limiter.js';
export { EmbeddedRedis } from './embedded/embedded-redis.js';
export { embeddedSocket } from './embedded/setup.js';
export { orStoreError, StoreUnavailable, toStoreError } from './errors.js';
export * from './keyspace.js';
export { QueryAbandoned, QueryRefused, TimeShare } from './queries.js';
export { RestingStorage } from './resting-storage.js';
export { Records, type ScopeWalk } from './records.js';
export { RedisClock } from './redis-clock.js';
export { REDIS_METRICS } from './redis.metrics.js';
export { RedisModule } from './redis.module.js';
export { ownerOfReservation } from './reservation-owner.js';
export { RedisService } from './redis.service.js';
export type { Reply, ScriptAnswer, ScriptReply } from './script-call.js';
export {
  type Balance,
  FIELD,
  GIVEN_ROWS,
  GIVEN_WRITERS,
  type GivenRow,
  USUAL_MARKS,
} from './script-types.js';
export type { Attestable } from './script-replies.js';
export type { NamedCall } from './scripts.js';
export { type RecordKind, SkippedNames } from './skipped-names.js';
export { nameSkipped, SkippedRecords } from './skipped-records.js';
