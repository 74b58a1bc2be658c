import { expect, test } from '@jest/globals';
import { StoreUnavailable } from '../../src/redis/index.js';
import { PartitionWalk } from '../../src/worker/index.js';

const PARTITIONS = 4;

/** Partitions with so many pages each, and the visits so far as `partition:page`. */
function world(pages: Record<string, number>, more: { atOnce?: number; fails?: Record<string, Error> } = {}) {
  const visits: string[] = [];
  let [cuts, passes] = [0, 0];
  const walk = new PartitionWalk<number>({
    undone: 'not walked',
    visit: (tag, place = 0) => {
      const code = tag.slice(2, 4);
      visits.push(`${code}:${place}`);
      const failure = more.fails?.[code];
      if (failure !== undefined) {
        return Promise.reject(failure);
      }
      return Promise.resolve(place + 1 < (pages[code] ?? 1) ? place + 1 : undefined);
    },
    cut: () => (cuts += 1),
    ended: () => (passes += 1),
    ...(more.atOnce === undefined ? {} : { atOnce: more.atOnce }),
  });
  /** A run that is cut after so many steps. */
  const run = (steps = Infinity): Promise<void> => {
    let left = steps;
    return walk.run(PARTITIONS, Infinity, { goesOn: () => (left -= 1) >= 0 });
  };
  return { walk, run, visits, told: () => ({ cuts, passes }) };
}

test('partitions take turns a page at a time, and the next pass starts one further', async () => {
  const { run, visits, told } = world({ '00': 3, '02': 2 });
  await run();
  expect(visits.splice(0)).toEqual(['00:0', '01:0', '02:0', '03:0', '00:1', '02:1', '00:2']);
  await run();
  expect(visits).toEqual(['01:0', '02:0', '03:0', '00:0', '02:1', '00:1', '00:2']);
  expect(told()).toEqual({ cuts: 0, passes: 2 });
});

test('over three pages with a cut in each, every page is visited once, in the same turns', async () => {
  const { run, visits, told } = world({ '00': 3, '01': 3, '02': 3, '03': 3 });
  for (const steps of [2, 3, 4]) {
    await run(steps);
  }
  expect(told()).toEqual({ cuts: 3, passes: 0 });
  await run();
  expect(visits).toEqual(
    [0, 1, 2].flatMap((page) => ['00', '01', '02', '03'].map((code) => `${code}:${page}`)),
  );
  expect(told()).toEqual({ cuts: 3, passes: 1 });
});

test('a partition with endless work holds up no other, even if each run has time for a few visits only', async () => {
  const { run, visits } = world({ '00': Infinity });
  await run(3);
  await run(3);
  expect(visits).toEqual(['00:0', '01:0', '02:0', '03:0', '00:1', '00:2']);
});

test('several at once take turns as well', async () => {
  const { walk, visits } = world({ '00': Infinity, '01': Infinity }, { atOnce: 2 });
  expect(walk.begin([0, 1, 2, 3])).toBe(true);
  expect([await walk.step(), await walk.step(), await walk.step()]).toEqual([true, false, true]);
  expect(visits).toEqual(['00:0', '01:0', '02:0', '03:0', '00:1', '01:1']);
  expect([walk.isDone, walk.begin([])]).toEqual([false, false]);
});

test('a failure is left out and named until a pass does without, and the others are visited', async () => {
  const fails: Record<string, Error> = { '01': new Error('WRONGTYPE') };
  const { walk, run, visits } = world({ '02': 2 }, { fails });
  walk.leaveOut('tenant acme');
  const message = 'not walked: partition 01, tenant acme';
  await expect(run()).rejects.toMatchObject({ message, cause: fails['01'] });
  expect(visits).toEqual(['00:0', '01:0', '02:0', '03:0', '02:1']);
  delete fails['01'];
  await expect(run(1)).rejects.toThrow(message);
  await run();
});

test('an outage of the store ends the run, and the next one goes on in the same place', async () => {
  const fails: Record<string, Error> = { '01': new StoreUnavailable('timeout') };
  const { run, visits, told } = world({ '00': 2 }, { fails });
  await expect(run()).rejects.toBe(fails['01']);
  delete fails['01'];
  await run();
  expect(visits).toEqual(['00:0', '01:0', '01:0', '02:0', '03:0', '00:1']);
  expect(told()).toEqual({ cuts: 0, passes: 1 });
});
