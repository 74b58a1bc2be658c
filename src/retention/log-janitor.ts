import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { DAY_MS } from '../ledger/index.js';
import { apiKeyExpiryKey, eventLogKey, RedisService } from '../redis/index.js';
import { type Instruments, MetricsRegistry } from '../telemetry/index.js';
import { PartitionWalk, type Turn, Worker } from '../worker/index.js';
import { type AuditLog, LOGS } from '../audit/index.js';
import { RETENTION_METRICS } from './retention.metrics.js';

const TRIM_INTERVAL_MS = 60_000;
const EXPIRY_INTERVAL_MS = 10_000;
const BUDGET_MS = 500;
/** Entries that one script removes: about two milliseconds of Redis' time. */
const ENTRIES_A_RUN = 250;
/** Expired API keys that one script handles. Each one gets an event. */
const KEYS_A_RUN = 100;
/** Events that no dispatcher has read are kept this many times as long, and then removed unread. */
const UNREAD_FACTOR = 2;

/**
 * Maintains the logs: removes old events and audit rows, and records the expiry of API keys, all bounded by count and time. An event
 * stays until the dispatcher has acknowledged it, but only up to a limit, so that a deployment without a dispatcher does not fill its
 * Redis.
 */
@Injectable()
export class LogJanitor implements OnModuleInit {
  private readonly counts: Instruments<typeof RETENTION_METRICS>;
  private readonly eventWalk: PartitionWalk;
  private readonly auditWalk: PartitionWalk;
  private readonly expiryWalk: PartitionWalk;
  private readonly eventRetentionMs: number;
  private readonly retentionMs: Readonly<Record<AuditLog, number>>;
  private heldLogs = 0;

  constructor(
    private readonly redis: RedisService,
    metrics: MetricsRegistry,
    private readonly worker: Worker,
    @Inject(CONFIG) config: HoldfastConfig,
  ) {
    this.counts = metrics.of(RETENTION_METRICS);
    // The record of an ended reservation refers to the event of its end.
    this.eventRetentionMs = Math.max(config.eventRetentionMs, config.auditRetentionMs);
    this.retentionMs = {
      audit: config.auditLogRetentionMs,
      'audit-brief': Math.min(config.auditLogBriefRetentionMs, config.auditLogRetentionMs),
      refused: DAY_MS,
    };
    this.eventWalk = new PartitionWalk({
      undone: 'not trimmed',
      visit: async (tag) => (await this.trimEventsOf(tag)) || undefined,
      cut: () => this.counts.cuts.inc({ job: 'event_retention' }),
      ended: () => {
        this.counts.heldLogs.set(this.heldLogs);
        this.heldLogs = 0;
      },
    });
    this.auditWalk = new PartitionWalk({
      undone: 'not trimmed',
      visit: async (tag) => (await this.trimAuditLogOf(tag)) || undefined,
      cut: () => this.counts.cuts.inc({ job: 'audit_log_retention' }),
    });
    this.expiryWalk = new PartitionWalk({
      undone: 'keys not expired',
      visit: async (tag) => (await this.expireKeysOf(tag)) || undefined,
      cut: () => this.counts.cuts.inc({ job: 'api_key_expiry' }),
    });
  }

  onModuleInit(): void {
    const role = 'janitor';
    this.worker.addRegular({
      name: 'event_retention',
      role,
      intervalMs: TRIM_INTERVAL_MS,
      run: (turn) => this.trimEvents(BUDGET_MS, turn),
    });
    this.worker.addRegular({
      name: 'audit_log_retention',
      role,
      intervalMs: TRIM_INTERVAL_MS,
      run: (turn) => this.trimAuditLog(BUDGET_MS, turn),
    });
    this.worker.addRegular({
      name: 'api_key_expiry',
      role,
      intervalMs: EXPIRY_INTERVAL_MS,
      run: (turn) => this.expireKeys(BUDGET_MS, turn),
    });
  }

  /** One pass over all partitions, or as much of it as the time allows. @throws as PartitionWalk does */
  async trimEvents(budgetMs = BUDGET_MS, turn?: Turn): Promise<void> {
    await this.eventWalk.run(this.redis.partitions, budgetMs, turn);
  }

  /** Same for the audit logs. */
  async trimAuditLog(budgetMs = BUDGET_MS, turn?: Turn): Promise<void> {
    await this.auditWalk.run(this.redis.partitions, budgetMs, turn);
  }

  /** Same for expired API keys. */
  async expireKeys(budgetMs = BUDGET_MS, turn?: Turn): Promise<void> {
    await this.expiryWalk.run(this.redis.partitions, budgetMs, turn);
  }

  private async trimEventsOf(tag: string): Promise<boolean> {
    const { removed, more, held } = await this.redis.scripts.call(
      'trim_event_log',
      { eventLog: eventLogKey(tag) },
      {
        retentionMs: this.eventRetentionMs,
        unreadMs: this.eventRetentionMs * UNREAD_FACTOR,
        limit: ENTRIES_A_RUN,
      },
    );
    this.counts.events.inc(removed);
    this.heldLogs += held && !more ? 1 : 0;
    return more;
  }

  private async trimAuditLogOf(tag: string): Promise<boolean> {
    let more = false;
    for (const log of Object.keys(LOGS) as AuditLog[]) {
      more = (await this.trimRows(tag, log)) || more;
    }
    return more;
  }

  private async trimRows(tag: string, log: AuditLog): Promise<boolean> {
    const { removed, more } = await this.redis.scripts.call(
      'trim_audit_log',
      { auditLog: LOGS[log].keyOf(tag) },
      { logName: log, retentionMs: this.retentionMs[log], limit: ENTRIES_A_RUN },
    );
    this.counts.rows.inc(removed);
    return more;
  }

  private async expireKeysOf(tag: string): Promise<boolean> {
    const { announced, more } = await this.redis.scripts.call(
      'expire_api_keys',
      { keyExpiries: apiKeyExpiryKey(tag) },
      { limit: KEYS_A_RUN },
    );
    this.counts.keys.inc(announced);
    return more;
  }
}
