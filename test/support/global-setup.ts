// Jest loads this file by plain require, which does not map '.js' to '.ts' as it does for the tests.
import { startRedis } from './redis-server.ts';
import { prepareSpec } from './spec/prepare.ts';

/** One real Redis for the whole run. Tests keep apart by random tenants, so nothing is ever flushed. */
export default async function globalSetup({ rootDir }: { rootDir: string }): Promise<void> {
  prepareSpec(rootDir);
  const { url } = await startRedis();
  process.env['TEST_REDIS_URL'] = url;
}
