export { ChangeAbandoned, Changes } from './changes.js';
export { type Claim, ConcurrencyLimiter } from './concurrency-limiter.js';
export { EmbeddedRedis } from './embedded/embedded-redis.js';
export { embeddedSocket } from './embedded/setup.js';
export { orStoreError, StoreUnavailable, toStoreError } from './errors.js';
export {
  activityKey,
  apiKeyExpiryKey,
  apiKeyHashKey,
  apiKeyIndexKey,
  apiKeyKey,
  auditIndexKey,
  auditLogKey,
  briefAuditLogKey,
  budgetIndexKey,
  budgetKey,
  bulkActionKey,
  burnRatesCheckedKey,
  cleanupIndexKey,
  closingKey,
  consoleSessionKey,
  correlatedEventsKey,
  deliveryIndexKey,
  deliveryKey,
  dispatchInstancesKey,
  dispatchLeaseKey,
  dispatchReportsKey,
  eventLogKey,
  evidenceBytesKey,
  evidenceKey,
  idempotencyKey,
  isStreamId,
  journalKey,
  keyRevokedChannel,
  orderedQueueKey,
  orderedQueuesKey,
  outcomesKey,
  ownedKey,
  partitionCode,
  partitionOfTenant,
  periodIndexKey,
  periodPlansKey,
  policyIndexKey,
  operatorIndexKey,
  operatorKey,
  operatorSecretKey,
  policyKey,
  policyNameKey,
  quarantineKey,
  ratesCursorKey,
  ratesDueKey,
  rateToldKey,
  replayKey,
  reservationIndexKey,
  reservationKey,
  retryingKey,
  rolledKey,
  runCounterIndexKey,
  storeOutageKey,
  streamBound,
  streamRange,
  type StreamRange,
  sweepInstancesKey,
  sweepLeaseKey,
  sweepReportsKey,
  SYSTEM_OWNER,
  tagOf,
  tagOfEvidenceId,
  tagOfKeyId,
  tagOfKeySecret,
  tagOfPolicyId,
  tagOfReservationId,
  tagOfWebhookId,
  tenantEventsKey,
  tenantIndexKey,
  tenantKey,
  turnedKey,
  testClockKey,
  ttlIndexKey,
  waiterQueueKey,
  waitersKey,
  wakeChannel,
  webhookIndexKey,
  webhookKey,
  webhookRevisionKey,
  webhookSecurityKey,
} from './keyspace.js';
export { QueryAbandoned, QueryRefused, TimeShare } from './queries.js';
export { RestingStorage } from './resting-storage.js';
export { type RecordPlace, Records, type ScopeWalk } from './records.js';
export { RedisClock } from './redis-clock.js';
export { REDIS_METRICS } from './redis.metrics.js';
export { RedisModule } from './redis.module.js';
export { RedisService } from './redis.service.js';
export type { NamedArgs, NamedKeys, Reply, ScriptAnswer, ScriptName, ScriptReply } from './script-call.js';
export { type Balance, FIELD } from './script-types.js';
export type { Attestable } from './script-replies.js';
export type { NamedCall } from './scripts.js';
export { nameSkipped, type RecordKind, SkippedNames, SkippedRecords } from './skipped-records.js';
