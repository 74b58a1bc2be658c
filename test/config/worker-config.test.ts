import { expect, test } from '@jest/globals';
import { configOfWorker, loadConfig } from '../../src/config/config.js';

test("the workers' shares of Redis time add up to that of one process, and the parent has the embedded Redis", () => {
  const config = loadConfig({ HOLDFAST_WORKERS: '4' });
  expect(configOfWorker(config, () => '/data/redis.sock')).toEqual({
    ...config,
    redis: { mode: 'socket', path: '/data/redis.sock' },
    archiveLateTimeShare: 12.5,
    archiveTimeShare: 5,
    queryTimeShare: 6.25,
    sweepTimeShare: 22.5,
    webhookTimeShare: 18.75,
  });
  const external = loadConfig({
    HOLDFAST_WORKERS: '2',
    REDIS_URL: 'redis://127.0.0.1',
    ADMIN_API_KEY: 'sixteen-or-more-characters',
    WEBHOOK_SECRET_ENCRYPTION_KEY: 'ab'.repeat(32),
  });
  expect(configOfWorker(external, () => 'not asked').redis).toBe(external.redis);
});
