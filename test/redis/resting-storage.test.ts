import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { RestingStorage } from '../../src/redis/resting-storage.js';
import { eventually } from '../support/eventually.js';

test('a storage keeps its values while it is used, is switched off some time later, and on again for the next use', async () => {
  const storage = new RestingStorage<string>(20);
  storage.begin();
  storage.begin();
  await storage.run('first', async () => {
    storage.end();
    await delay(100);
    expect(storage.getStore()).toBe('first');
    storage.end();
    await delay(1);
    await eventually('the storage is off', () => Promise.resolve(storage.getStore() === undefined));
  });
  storage.begin();
  await storage.run('second', async () => {
    await delay(100);
    expect(storage.getStore()).toBe('second');
  });
  storage.end();
});

test('a use that follows soon keeps the storage on', async () => {
  const storage = new RestingStorage<string>(50);
  storage.begin();
  await storage.run('kept', async () => {
    storage.end();
    storage.begin();
    await delay(200);
    expect(storage.getStore()).toBe('kept');
  });
  storage.end();
});

/**
 * From Node.js 24 on, a storage costs nothing between its uses, and whatever a run started keeps its value.
 */
const restIsNeeded = Number.parseInt(process.versions.node, 10) < 24;
const testOfRest = restIsNeeded ? test : test.skip;

test('what a run starts keeps its value', async () => {
  const storage = new RestingStorage<string>(20);
  await storage.run('started', async () => {
    await Promise.resolve();
    expect(storage.getStore()).toBe('started');
  });
});

testOfRest(
  `whatever a run left behind has no value once the storage is off${restIsNeeded ? '' : ' (skipped: not needed from Node.js 24 on)'}`,
  async () => {
    const storage = new RestingStorage<string>(20);
    await storage.run('started', () =>
      eventually('the storage is off', () => Promise.resolve(storage.getStore() === undefined)),
    );
  },
);
