import { Writable } from 'node:stream';

import type { Registry } from 'prom-client';

import { loadConfig } from '../../src/config/config.js';
import { RedisService } from '../../src/redis/redis.service.js';
import { createLogger } from '../../src/telemetry/logger.js';
import { MetricsRegistry } from '../../src/telemetry/metrics-registry.js';
import { storeSettings } from './store.js';

export type LogLine = Readonly<Record<string, unknown>> & { readonly level: string; readonly msg: string };

export interface RunningService {
  readonly service: RedisService;
  readonly log: LogLine[];
  readonly registry: Registry;
  /** The value of a metric that has no labels. */
  metric(name: string): Promise<number>;
}

const running = new Set<RedisService>();

/**
 * A RedisService as the application starts it, with its log captured for the test. The settings are
 * environment variables.
 */
export async function startRedisService(env: Record<string, string>): Promise<RunningService> {
  const log: LogLine[] = [];
  const destination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      log.push(JSON.parse(chunk.toString()) as LogLine);
      done();
    },
  });
  const metrics = new MetricsRegistry({ metricsTenantLabel: true });
  const { registry } = metrics;
  const config = loadConfig({
    ADMIN_API_KEY: 'an-admin-key-for-tests',
    WEBHOOK_SECRET_ENCRYPTION_KEY: '5e'.repeat(32),
    ...storeSettings(env),
  });
  const service = await RedisService.start(config, createLogger('debug', destination), metrics);
  running.add(service);
  return { service, log, registry, metric: (name) => valueOf(registry, name) };
}

/** For afterEach: closes connections and embedded Redis servers, even after a failure. */
export async function stopAllRedisServices(): Promise<void> {
  const services = [...running];
  running.clear();
  await Promise.all(services.map((service) => service.onApplicationShutdown()));
}

async function valueOf(registry: Registry, name: string): Promise<number> {
  const metric = await registry.getSingleMetric(name)?.get();
  return metric?.values[0]?.value ?? 0;
}
