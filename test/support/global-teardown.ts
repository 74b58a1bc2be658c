// Jest loads this file by plain require, which does not map '.js' to '.ts' as it does for the tests.
import { stopAllRedis } from './redis-server.ts';
import { removePreparedSpec } from './spec/prepare.ts';

export default async function globalTeardown(): Promise<void> {
  removePreparedSpec();
  await stopAllRedis();
}
