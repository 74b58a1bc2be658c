import { setImmediate } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { AuditWriter } from '../../src/audit/audit-log/audit-writer.js';
import type { RedisService } from '../../src/redis/redis.service.js';
import type { HealthContributors } from '../../src/telemetry/health.js';
import { createLogger } from '../../src/telemetry/logger.js';
import { MetricsRegistry } from '../../src/telemetry/metrics-registry.js';

test('a row that arrives just as the previous one has been written is written immediately, too', async () => {
  for (let steps = 0; steps < 20; steps += 1) {
    const redis = { partitions: 64, scripts: { call: () => Promise.resolve({ removed: 0 }) } };
    const metrics = new MetricsRegistry({ metricsTenantLabel: true });
    const writer = new AuditWriter(
      redis as unknown as RedisService,
      metrics,
      createLogger('silent'),
      {} as HealthContributors,
    );
    const row = { partitionOf: 'acme', log: 'audit', fields: [] } as const;
    writer.write(row, 'failure');
    for (let step = 0; step < steps; step += 1) {
      await Promise.resolve();
    }
    writer.write(row, 'failure');
    await setImmediate();
    expect({ steps, waiting: writer.size }).toEqual({ steps, waiting: 0 });
    expect(await metrics.registry.getSingleMetricAsString('cycles_admin_audit_writes_total')).toMatch(
      /\{path_class="failure",outcome="written",.*\} 2$/m,
    );
  }
});
