import type { Provider } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { Test, type TestingModule } from '@nestjs/testing';
import type { Redis } from 'ioredis';
import { LogJanitor } from '../../src/retention/log-janitor.js';
import { RecordJanitor } from '../../src/retention/record-janitor.js';
import { CONFIG, type HoldfastConfig } from '../../src/config/config.js';
import { ExpiryService } from '../../src/expiry/expiry.service.js';
import { PartitionDrain } from '../../src/expiry/partition-drain.js';
import { Reconciler } from '../../src/expiry/reconciler.js';
import { SweepLeases } from '../../src/expiry/sweep-partition.js';
import { TenantLimits } from '../../src/limits/limits.service.js';
import { RedisService } from '../../src/redis/redis.service.js';
import { ScriptRegistry } from '../../src/redis/scripts.js';
import { HealthContributors, ShutdownState } from '../../src/telemetry/health.js';
import { createLogger, LOGGER } from '../../src/telemetry/logger.js';
import { MetricsRegistry } from '../../src/telemetry/metrics-registry.js';
import { Tracing } from '../../src/telemetry/tracing/tracing.js';
import { Attempts } from '../../src/webhooks/dispatch/attempts.js';
import { DispatchFigures } from '../../src/webhooks/dispatch/dispatch-figures.js';
import { DispatchLeases } from '../../src/webhooks/dispatch/dispatch-leases.js';
import { Dispatcher } from '../../src/webhooks/dispatch/dispatcher.service.js';
import { EventReader } from '../../src/webhooks/dispatch/event-reader.js';
import { OrderedQueues } from '../../src/webhooks/dispatch/ordered-queues.js';
import { Outcomes } from '../../src/webhooks/dispatch/outcomes.js';
import { Retries } from '../../src/webhooks/dispatch/retries.js';
import { SubscriptionTally } from '../../src/webhooks/dispatch/subscription-tally.js';
import { SecretBox } from '../../src/webhooks/signing/secret-box.js';
import { SubscriptionCache } from '../../src/webhooks/subscriptions/subscription-cache.js';
import { SignedPosts } from '../../src/webhooks/transport/signed-posts.js';
import { WebhookTransport } from '../../src/webhooks/transport/webhook-transport.js';
import { PartitionJobs } from '../../src/worker/partition-jobs.js';
import { Worker } from '../../src/worker/worker.js';
import { configOf } from '../support/settings.js';
import { Connection } from './world-connection.js';
import type { Endpoint } from './world-endpoint.js';
import { Actor, type WorldTime } from './world-time.js';
import type { MetricsTable } from '../../src/telemetry/metrics-table.js';

export const PARTITIONS = 2;
/** How long the play's ledger keeps what has ended. */
export const RETENTION_MS = 120_000;
/** Instead of a random time. */
const RECONCILED_AFTER_MS = 60_000;
export const WORLD_CONFIG: HoldfastConfig = {
  ...configOf({
    REDIS_URL: 'redis://127.0.0.1:1',
    ADMIN_API_KEY: 'a-key-for-the-play',
    WEBHOOK_SECRET_ENCRYPTION_KEY: '07'.repeat(32),
    PARTITIONS: String(PARTITIONS),
    webhookPollMs: 1000,
    SWEEP_INTERVAL_MS: '2000',
    SWEEP_BATCH_SIZE: '10',
  }),
  auditRetentionMs: RETENTION_MS,
  eventRetentionMs: RETENTION_MS,
  webhookDeliveryRetentionMs: RETENTION_MS,
};

/** Counts nothing, because the metrics of each simulated process would stay in the real one. */
const COUNTER = {
  inc: () => undefined,
  set: () => undefined,
  observe: () => undefined,
  readFrom: () => undefined,
};
export const METRICS = {
  activity: { add: () => undefined },
  of: (table: MetricsTable) => Object.fromEntries(Object.keys(table).map((name) => [name, COUNTER])),
};

/**
 * The background work of a service instance: sweeper, dispatcher, reconciler and janitors, each with its own
 * worker.
 */
export class WorldService {
  readonly connection: Connection;
  readonly actor: Actor;
  private upkeep: readonly (() => Promise<unknown>)[] = [];

  private constructor(name: string) {
    this.actor = new Actor(name);
    this.connection = Connection.of(this.actor);
  }

  /** Starts an instance. Its jobs wait for their timers. */
  static async start(name: string, time: WorldTime, endpoint: Endpoint): Promise<WorldService> {
    const service = new WorldService(name);
    await time.as(service.actor, async () => {
      service.actor.isAssembled = false;
      const module = await service.assemble(endpoint, time);
      service.actor.isAssembled = true;
      Object.assign(module.get(Reconciler), { startsInMs: RECONCILED_AFTER_MS });
      module.get(Worker).add(module.get(Dispatcher));
      await module.init();
      const [logs, records, reconciler] = [LogJanitor, RecordJanitor, Reconciler].map((job) =>
        module.get(job),
      ) as [LogJanitor, RecordJanitor, Reconciler];
      service.upkeep = [
        () => logs.trimEvents(),
        () => logs.trimAuditLog(),
        () => records.trim(),
        () => reconciler.reconcile(),
      ];
    });
    return service;
  }

  /** Runs one of the janitors' jobs early, because an instance seldom lives long enough to reach it. */
  maintain(time: WorldTime): void {
    const job = this.upkeep[Math.floor(time.random() * this.upkeep.length)];
    // A job that fails runs again at its next time.
    time.as(this.actor, () => void job?.().catch(() => undefined));
  }

  private assemble(endpoint: Endpoint, time: WorldTime): Promise<TestingModule> {
    const client = this.connection as unknown as Redis;
    const redis = {
      client,
      scripts: new ScriptRegistry(client),
      partitions: PARTITIONS,
      clock: { nowMs: () => time.nowMs },
      inOneWrite: <T>(send: () => T): T => send(),
    };
    const given: Provider[] = [
      { provide: RedisService, useValue: redis },
      { provide: CONFIG, useValue: WORLD_CONFIG },
      { provide: LOGGER, useValue: createLogger('silent') },
      { provide: MetricsRegistry, useValue: METRICS },
      { provide: Tracing, useValue: new Tracing() },
      { provide: WebhookTransport, useValue: endpoint.transportOf(this.actor) },
    ];
    return Test.createTestingModule({
      imports: [ScheduleModule.forRoot()],
      providers: [
        ...given,
        ...[Attempts, Dispatcher, DispatchFigures, DispatchLeases, EventReader],
        ...[OrderedQueues, Outcomes, Retries, SubscriptionTally],
        ...[SecretBox, SignedPosts, SubscriptionCache],
        ...[ExpiryService, PartitionDrain, SweepLeases],
        ...[Reconciler, TenantLimits, LogJanitor, RecordJanitor],
        ...[PartitionJobs, Worker, HealthContributors, ShutdownState],
      ],
    })
      .setLogger(false as never)
      .compile();
  }
}
