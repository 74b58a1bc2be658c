// Jest loads this file with a plain require, which does not map '.js' to '.ts' as it does for the tests.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { openRun, type Run } from '../../scripts/test-run.mjs';
import { prepareSpec } from './spec/prepare.ts';
import { launchStore, lend, topologyOfRun } from './store.ts';
import { setTimeFactor } from './time-limits.ts';

/** Set when jest was started without `npm test`, which otherwise opens the run. */
export let ownRun: Run | undefined;

/**
 * Starts one real Redis for the whole run, on the topology that TEST_TOPOLOGY names. Tests use random
 * tenants, so nothing in it is ever flushed. Where starting a topology takes long, further ones are started
 * here and lent to the test files that need their own.
 */
export default async function globalSetup({
  rootDir,
  maxWorkers,
}: {
  rootDir: string;
  maxWorkers: number;
}): Promise<void> {
  if (process.env['TEST_RUN_FOLDER'] === undefined) {
    ownRun = openRun();
  }
  // For runs of jest without `npm test`, which builds.
  execFileSync(process.execPath, [join(rootDir, 'scripts/lua/generate.mjs')]);
  await setTimeFactor();
  prepareSpec(rootDir);
  const url = await launchStore();
  process.env['TEST_REDIS_URL'] = url;
  if (topologyOfRun() !== 'single') {
    const lendable = await Promise.all(Array.from({ length: maxWorkers + 1 }, () => launchStore()));
    await Promise.all(lendable.map((one) => lend(url, one)));
  }
}
