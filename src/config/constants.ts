import { DAY_MS } from '../ledger/index.js';

const GIB = 1024 ** 3;

/**
 * Figures that no deployment has a reason to change; each says why it is what it is. They are part of the configuration, so that tests
 * can run an instance with others. No environment variable sets them.
 */
export const CONSTANTS = {
  /** Requests in flight at shutdown. The whole stop, embedded Redis included, must stay under 10 s, after which platforms kill. */
  shutdownGraceMs: 8000,

  /** Lists, searches and exports that an instance answers at once. One runs at Redis at a time, so more would only hold memory. */
  queryConcurrency: 8,
  /** Half of the slots, so that no tenant takes them all; operators count as one tenant. */
  queryConcurrencyPerTenant: 4,
  /**
   * A query that waits this long, at random up to a quarter longer, gets 429: soon enough for a client to slow down. Those of operators wait
   * ten times as long. 0 refuses at once.
   */
  queryQueueMs: 1000,
  /** Percentage of Redis' time for the queries of an instance. The rest is for the ledger. */
  queryTimeShare: 25,

  /**
   * What DuckDB may use for a report of usage, beside the service. 3,000,000 rows in thousands of groups take a fifth of the memory, and two
   * threads about half a second. In as many groups they take all of it, and 300 MB of disk.
   */
  usageMemoryMb: 512,
  /** Of the archive's disk. */
  usageSpillMb: 2000,
  usageThreads: 2,
  /** A report that takes longer is stopped: most clients have given up. A report also waits at most this long for its turn. */
  usageTimeoutMs: 60_000,

  /** A dead sweeper's partitions are taken over after this. Shorter, and a collection of garbage or a slow Redis looks like a death. */
  sweepLeaseMs: 5000,
  /** Percentage of time that a sweeper with a backlog works. One that is late by more than 250 ms works all the time. */
  sweepTimeShare: 90,
  /** Without a successful sweep, or with a due hold, for this long, readiness is red. The alert HoldfastSweeperStalled has the same limit. */
  sweepAlertMs: 30_000,

  /** As `sweepLeaseMs`, for partitions of archivers. Longer, because nobody waits for them, and a large file takes seconds. */
  archiveLeaseMs: 15_000,
  /** Only older entries are archived: a failover may lose younger ones together with the changes that they tell of. */
  archiveSettleMs: 5000,
  /** How long an entry waits for others of its file. Shorter, and there are more and smaller files; longer, and today's usage is older. */
  archiveFlushMs: 60_000,
  /** A file that has so many rows is written at once: about 2 MB, and 20 MB of memory. */
  archiveFileRows: 20_000,
  /** Percentage of Redis' time for reading what is archived, as long as the archiver is on time. */
  archiveTimeShare: 20,
  /** The same while it is late, beside the share of partitions that are on time. Half of Redis' time archives 20,000 ends a second. */
  archiveLateTimeShare: 50,
  /** An entry that is older, or the fourth full file in a row, makes it late. An entry on time waits for its file, and that for its turn. */
  archiveLateMs: 90_000,
  /** From one look for days to publish, files to merge and gaps to the next. */
  archivePublishMs: 60_000,
  /** How long a file stays that is no longer needed, for readers that have just listed it; far longer than a failover takes to lose a cursor. */
  archiveKeepMs: 600_000,
  /** An entry that has waited this long for the archiver is a warning in readiness, and the alert HoldfastArchiveBehind. */
  archiveAlertMs: 900_000,

  /** Reserves of a tenant that wait for funds at once. Each time that funds are freed, a script looks at those of the scopes concerned. */
  waitersPerTenant: 1000,
  /** Requests of one address for public documents, per minute and instance: many readers behind one address, but no flood. 0: no limit. */
  rateLimitPublicPerMinute: 300,

  /*
   * What a tenant may own, unless operators have given it limits of its own by `PUT /ops/tenants/{tenant_id}/limits`; 0 means no limit.
   * Each is far above usual use, and low enough that one tenant cannot fill a store of ordinary size.
   */
  tenantMaxLiveReservations: 1_000_000,
  tenantMaxBudgets: 100_000,
  tenantMaxPolicies: 1000,
  /** Revoked and expired keys included. */
  tenantMaxApiKeys: 1000,
  /** With 0, the limit of 1000 for any owner remains: each event is compared with all subscriptions of its tenant. */
  tenantMaxWebhooks: 100,
  tenantMaxStoredBytes: 64 * GIB,

  /** Deliveries that an instance attempts at once. Each holds a socket, and slow endpoints hold theirs for WEBHOOK_TIMEOUT_MS. */
  webhookConcurrency: 1000,
  /** Time from one check for new events to the next: what an event waits at most when the dispatcher is idle. */
  webhookPollMs: 100,
  /** Percentage of Redis' time for queueing deliveries. Events wait in the log meanwhile, so the ledger goes first. */
  webhookTimeShare: 75,
  /** As `sweepLeaseMs`, for partitions of dispatchers. */
  webhookLeaseMs: 5000,
  /** A delivery older than a day at its turn is given up: so late it would mislead more than help, and a replay sends it again. */
  webhookStaleAfterMs: DAY_MS,
  /** How long a delivery can be looked up: long enough to find out after a holiday why a receiver got nothing. */
  webhookDeliveryRetentionMs: 14 * DAY_MS,
  /** An event that has waited this long for dispatch turns readiness red. */
  webhookAlertMs: 30_000,
};

export type Constants = Readonly<typeof CONSTANTS>;
