import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { DAY_MS } from '../ledger/index.js';
import { apiKeyExpiryKey, eventLogKey, RedisService } from '../redis/index.js';
import { MetricsRegistry } from '../telemetry/index.js';
import { PartitionJobs, type PartitionRun } from '../worker/index.js';
import { type AuditLog, LOGS } from '../audit/index.js';
import { RETENTION_METRICS } from './retention.metrics.js';

const TRIM_INTERVAL_MS = 60_000;
const EXPIRY_INTERVAL_MS = 10_000;
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
export class LogJanitor {
  readonly trimEvents: PartitionRun;
  readonly trimAuditLog: PartitionRun;
  readonly expireKeys: PartitionRun;
  private readonly counts = this.metrics.of(RETENTION_METRICS);
  private readonly eventRetentionMs: number;
  private readonly retentionMs: Readonly<Record<AuditLog, number>>;
  private heldLogs = 0;

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
    jobs: PartitionJobs,
    @Inject(CONFIG) config: HoldfastConfig,
  ) {
    // The record of an ended reservation refers to the event of its end.
    this.eventRetentionMs = Math.max(config.eventRetentionMs, config.auditRetentionMs);
    this.retentionMs = {
      audit: config.auditLogRetentionMs,
      'audit-brief': Math.min(config.auditLogBriefRetentionMs, config.auditLogRetentionMs),
      refused: DAY_MS,
    };
    this.trimEvents = jobs.add({
      name: 'event_retention',
      intervalMs: TRIM_INTERVAL_MS,
      undone: 'not trimmed',
      visit: (tag) => this.trimEventsOf(tag),
      cut: () => this.counts.cuts.inc({ job: 'event_retention' }),
      ended: () => {
        this.counts.heldLogs.set(this.heldLogs);
        this.heldLogs = 0;
      },
    });
    this.trimAuditLog = jobs.add({
      name: 'audit_log_retention',
      intervalMs: TRIM_INTERVAL_MS,
      undone: 'not trimmed',
      visit: (tag) => this.trimAuditLogOf(tag),
      cut: () => this.counts.cuts.inc({ job: 'audit_log_retention' }),
    });
    this.expireKeys = jobs.add({
      name: 'api_key_expiry',
      intervalMs: EXPIRY_INTERVAL_MS,
      undone: 'keys not expired',
      visit: (tag) => this.expireKeysOf(tag),
      cut: () => this.counts.cuts.inc({ job: 'api_key_expiry' }),
    });
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
