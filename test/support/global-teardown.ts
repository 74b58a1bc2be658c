// Jest loads this file with a plain require, which does not map '.js' to '.ts' as it does for the tests.
import { ownRun } from './global-setup.ts';
import { stopAllRedis } from './redis-server.ts';

export default async function globalTeardown(): Promise<void> {
  await stopAllRedis();
  await ownRun?.close({ inOrder: true });
}
