import { setImmediate } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { type AuditTrailMetrics, AuditWriter } from '../../src/audit/audit-log/audit-writer.js';
import type { RedisService } from '../../src/redis/redis.service.js';
import type { HealthContributors } from '../../src/telemetry/health.js';
import { createLogger } from '../../src/telemetry/logger.js';

test('a row that arrives just as the previous one has been written is written immediately, too', async () => {
  for (let steps = 0; steps < 20; steps += 1) {
    let written = 0;
    const redis = { partitions: 64, scripts: { run: () => Promise.resolve(['APPENDED', '1', '0']) } };
    const metrics = { displacedRows: () => undefined, wrote: () => (written += 1) };
    const writer = new AuditWriter(
      redis as unknown as RedisService,
      metrics as unknown as AuditTrailMetrics,
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
    expect({ steps, written, waiting: writer.size }).toEqual({ steps, written: 2, waiting: 0 });
  }
});
