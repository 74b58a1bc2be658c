import { afterEach, beforeAll, expect, jest, test } from '@jest/globals';
import { CONFIG, type HoldfastConfig } from '../../src/config/index.js';
import { ExpiryService } from '../../src/expiry/expiry.service.js';
import { PartitionDrain } from '../../src/expiry/partition-drain.js';
import { LATE_MS, Run } from '../../src/expiry/drain-run.js';
import { SweepPartition } from '../../src/expiry/sweep-partition.js';
import { ttlIndexKey } from '../../src/redis/keyspace.js';
import { RedisService, StoreUnavailable } from '../../src/redis/index.js';
import type { ScriptRegistry } from '../../src/redis/scripts.js';
import { Holdfast, type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';
import { makeOverdueTogether, makeTenants } from './instances.js';

/** A sweeper is polite as long as it is on time. */

const CALL_SIZE = 20;
/** Calls that a sweep keeps in flight when it is 1.5 s late or more. */
const AT_ONCE = 48;

// Without pauses that are due whether or not the sweep is late.
const on = useGovernance({}, { sweepTimeShare: 100 });
let scripts: ScriptRegistry;
let call: ScriptRegistry['call'];

beforeAll(() => {
  ({ scripts } = on.holdfast.app.get(RedisService));
  call = scripts.call.bind(scripts);
  scripts.call = call;
});
afterEach(() => {
  jest.restoreAllMocks();
  scripts.call = call;
});

/** Of the scripts that a sweep calls. */
interface Answer {
  readonly nowMs: number;
  readonly oldestDueMs?: number;
  readonly outcomes?: readonly object[];
}

/** No sweep becomes late because the machine is busy. */
function stopClock(): void {
  jest.spyOn(performance, 'now').mockReturnValue(performance.now());
}

const makeOverdue = (tenant: TestTenant, count: number): Promise<void> =>
  makeOverdueTogether(on.holds, tenant, count);

/** Passes each call of a sweep through `around`, and counts how many batches are in flight at most. */
function watchBatches(around: (send: () => Promise<Answer>, underWay: number) => Promise<Answer>) {
  const real = scripts.call as (...args: unknown[]) => Promise<Answer>;
  const seen = { underWay: 0, most: 0, batches: 0 };
  const watched = async (name: string, ...rest: unknown[]): Promise<Answer> => {
    if (name !== 'expire_page') {
      return real(name, ...rest);
    }
    seen.batches += 1;
    seen.underWay += 1;
    seen.most = Math.max(seen.most, seen.underWay);
    try {
      return await around(() => real(name, ...rest), seen.underWay);
    } finally {
      seen.underWay -= 1;
    }
  };
  Object.assign(scripts, { call: watched });
  return seen;
}

const sweep = () => on.holdfast.app.get(ExpiryService).sweep();
const pauses = () => on.holdfast.metric('holdfast_sweep_pauses_total');
const lateSweeps = () => on.holdfast.metric('holdfast_sweep_late_total');

/** Pages say that their holds have just become due, if `applies` to their number. */
function asIfOnTime(applies: (pages: number) => boolean): void {
  const real = scripts.call as (...args: unknown[]) => Promise<Answer>;
  let pages = 0;
  const answer = async (...given: unknown[]): Promise<Answer> => {
    const reply = await real(...given);
    const isPage = reply.oldestDueMs !== undefined;
    pages += isPage ? 1 : 0;
    return isPage && applies(pages) ? { ...reply, oldestDueMs: reply.nowMs - 1 } : reply;
  };
  Object.assign(scripts, { call: answer });
}

/** A gate that opens once as many have come. */
function gateFor(count: number): () => Promise<void> {
  let come = 0;
  let open: () => void = () => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return () => {
    come += 1;
    if (come === count) {
      open();
    }
    return opened;
  };
}

test('a late sweep keeps several batches in flight and does not pause because they waited', async () => {
  const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
  await makeOverdue(tenant, 2 * AT_ONCE * CALL_SIZE);
  const [pausesBefore, lateBefore] = [await pauses(), await lateSweeps()];
  // The first batches wait for each other, so that the sweep ends only if all of them are in flight.
  const arrive = gateFor(AT_ONCE);
  const seen = watchBatches(async (send) => {
    await arrive();
    return send();
  });
  expect(await sweep()).toMatchObject({ expired: 2 * AT_ONCE * CALL_SIZE, failed: 0, cut: false });
  expect(seen).toMatchObject({ most: AT_ONCE, batches: 2 * AT_ONCE });
  expect((await pauses()) - pausesBefore).toBe(0);
  expect((await lateSweeps()) - lateBefore).toBe(1);
});

test('a batch that Redis does not answer ends a late page when those beside it have ended, and is judged by the next sweep', async () => {
  const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
  await makeOverdue(tenant, 4 * CALL_SIZE);
  const arrive = gateFor(4);
  const seen = watchBatches(async (send, underWay) => {
    await arrive();
    if (underWay === 2) {
      throw new StoreUnavailable('timeout');
    }
    return send();
  });
  expect(await sweep()).toMatchObject({ expired: 3 * CALL_SIZE, failed: 1 });
  expect(seen).toMatchObject({ underWay: 0, batches: 4 });
  scripts.call = call;
  expect(await sweep()).toMatchObject({ expired: CALL_SIZE, failed: 0 });
});

test('a late sweep does not pause for its share of the time, which the workers of an instance divide', async () => {
  const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
  const worker = await Holdfast.start({ REDIS_URL: on.redis.url, sweepTimeShare: 1 });
  try {
    await makeOverdue(tenant, 3 * CALL_SIZE);
    expect(await worker.app.get(ExpiryService).sweep()).toMatchObject({ expired: 3 * CALL_SIZE });
    expect(await worker.metric('holdfast_sweep_late_total')).toBe(1);
    expect(await worker.metric('holdfast_sweep_pauses_total')).toBe(0);
  } finally {
    await worker.stop();
  }
});

test('the batches of several late partitions are bounded together', async () => {
  const tenants = await makeTenants(on.holdfast, 4);
  await Promise.all(tenants.map((tenant) => makeOverdue(tenant, AT_ONCE * CALL_SIZE)));
  const arrive = gateFor(AT_ONCE);
  const seen = watchBatches(async (send) => {
    await arrive();
    return send();
  });
  expect(await sweep()).toMatchObject({ expired: 4 * AT_ONCE * CALL_SIZE, failed: 0 });
  expect(seen.most).toBe(AT_ONCE);
});

test('a sweep on time sends one batch of a partition after the other, and pauses when one had to wait', async () => {
  const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
  await makeOverdue(tenant, 3 * CALL_SIZE);
  const [pausesBefore, lateBefore] = [await pauses(), await lateSweeps()];
  // The second batch waits for others, by a clock that moves only here.
  let now = performance.now();
  jest.spyOn(performance, 'now').mockImplementation(() => now);
  const seen = watchBatches(async (send) => {
    const reply = await send();
    now += seen.batches === 2 ? 10 : 1;
    return reply;
  });
  asIfOnTime(() => true);
  expect(await sweep()).toMatchObject({ expired: 3 * CALL_SIZE, failed: 0, cut: false });
  expect(seen).toMatchObject({ most: 1, batches: 3 });
  expect((await pauses()) - pausesBefore).toBeGreaterThanOrEqual(1);
  expect((await lateSweeps()) - lateBefore).toBe(0);
});

test('a sweep that becomes late reads the rest of its page again, and then judges it faster', async () => {
  const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
  await makeOverdue(tenant, (1 + AT_ONCE) * CALL_SIZE);
  const pagesBefore = await on.holdfast.metric('holdfast_sweep_pages_total');
  const arrive = gateFor(AT_ONCE);
  const seen = watchBatches(async (send) => {
    if (seen.batches > 1) {
      await arrive();
      return send();
    }
    // As if others had kept Redis busy until the last hold of the page was late.
    const [began, reply] = [performance.now(), await send()];
    while (performance.now() - began <= LATE_MS) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    return reply;
  });
  // The second read finds them as late as they are.
  asIfOnTime((pages) => pages === 1);
  expect(await sweep()).toMatchObject({ expired: (1 + AT_ONCE) * CALL_SIZE, failed: 0, cut: false });
  expect(seen).toMatchObject({ most: AT_ONCE, batches: 1 + AT_ONCE });
  // One for each partition, and one more for the second read.
  expect((await on.holdfast.metric('holdfast_sweep_pages_total')) - pagesBefore).toBe(65);
});

test('a late sweep is polite again as soon as what it finds is on time', async () => {
  const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
  const { sweepBatchSize } = on.holdfast.app.get<HoldfastConfig>(CONFIG);
  const left = 3 * CALL_SIZE;
  await makeOverdue(tenant, sweepBatchSize + left);
  const seen = watchBatches((send) => send());
  const most: number[] = [];
  asIfOnTime((pages) => {
    most.push(seen.most);
    seen.most = 0;
    return pages === 2;
  });
  stopClock();
  expect(await sweep()).toMatchObject({ expired: sweepBatchSize + left, failed: 0, cut: false });
  expect([...most, seen.most]).toEqual([0, AT_ONCE, 1]);
});

test('the later a sweep is, the more batches it keeps in flight, up to a bound', () => {
  const [one, other] = [new SweepPartition(0), new SweepPartition(1)];
  const pass = { token: '', goesOn: () => true, lost: () => undefined };
  const run = new Run(pass, new Set([one, other]), '');
  stopClock();
  const callsIf = (lateMs: number): number => {
    one.dueFrom = performance.now() - lateMs;
    other.dueFrom = performance.now();
    return run.lateCalls;
  };
  expect([0, 200, 300, 600, 1100, 1600, 60_000].map(callsIf)).toEqual([0, 0, 8, 16, 32, AT_ONCE, AT_ONCE]);
  run.open.delete(one);
  expect(run.isLate).toBe(false);
});

test('a late sweep begins with the partition whose holds are the latest, and one on time with the one not served for longest', async () => {
  const partitions = Array.from({ length: 4 }, (_, number) => new SweepPartition(number));
  const read: string[] = [];
  const real = scripts.call as (...args: unknown[]) => Promise<unknown>;
  const watched = (name: string, keys: { ttlIndex: string }, ...rest: unknown[]): Promise<unknown> => {
    read.push(...partitions.filter(({ tag }) => ttlIndexKey(tag) === keys.ttlIndex).map(({ code }) => code));
    return real(name, keys, ...rest);
  };
  Object.assign(scripts, { call: watched });
  stopClock();
  const pass = { token: '', goesOn: () => true, lost: () => undefined };
  const order = async (dueForMs: readonly number[]): Promise<string[]> => {
    read.length = 0;
    const now = performance.now();
    for (const [index, partition] of partitions.entries()) {
      partition.dueFrom = now - (dueForMs[index] ?? 0);
      partition.servedAt = now - index;
    }
    await on.holdfast.app.get(PartitionDrain).run(partitions, pass);
    return read;
  };
  expect(await order([2000, 8000, 1000, 4000])).toEqual(['01', '03', '00', '02']);
  expect(await order([0, 0, 0, 0])).toEqual(['03', '02', '01', '00']);
});
