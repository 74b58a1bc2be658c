// Jest loads this file by plain require, which does not map '.js' to '.ts' as it does for the tests.
import { openRun, type Run } from '../../scripts/test-run.mjs';
import { prepareSpec } from './spec/prepare.ts';
import { launchStore, lend, topologyOfRun } from './store.ts';
import { setTimeFactor } from './time-limits.ts';

/** Set when jest was started without `npm test`, which opens a run itself. */
export let ownRun: Run | undefined;

/**
 * One real Redis for the whole run, of the topology that TEST_TOPOLOGY names. Tests keep apart by random tenants, so nothing in it
 * is ever flushed. Where starting one takes long, there are some more to be lent to the files that need one of their own.
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
  await setTimeFactor();
  prepareSpec(rootDir);
  const url = await launchStore();
  process.env['TEST_REDIS_URL'] = url;
  if (topologyOfRun() !== 'single') {
    const lendable = await Promise.all(Array.from({ length: maxWorkers + 1 }, () => launchStore()));
    await Promise.all(lendable.map((one) => lend(url, one)));
  }
}
