import { expect, test } from '@jest/globals';
import { ArchivePartition } from '../../src/archive/archive-partition.js';
import { ARCHIVED } from '../../src/archive/entry-chain.js';

const TERMS = { settleMs: 5000, flushMs: 60_000, fileRows: 100 };
const EVERYTHING = [...ARCHIVED];

/** Of streams that are archived up to 0, when their end is to be noted. */
function dueAt(number: number): number {
  const partition = new ArchivePartition(number);
  while (partition.due(TERMS).length === 0) {
    partition.nowMs += 100;
  }
  expect(partition.due(TERMS)).toEqual(EVERYTHING);
  return partition.nowMs - TERMS.settleMs;
}

test('partitions without work note their ends at different moments, and none later than the flush', () => {
  const moments = Array.from({ length: 16 }, (_, number) => dueAt(number));
  expect(new Set(moments).size).toBe(16);
  expect(Math.max(...moments)).toBe(TERMS.flushMs);
  expect(Math.min(...moments)).toBeGreaterThan(TERMS.flushMs / 2);
});

test('what waits is due with a full file, or once the oldest entry has waited as long as the flush', () => {
  const partition = new ArchivePartition(15);
  const { charges } = partition.streams;
  Object.assign(charges, { oldestMs: 1000, waiting: 99 });
  partition.nowMs = 1000 + TERMS.settleMs + TERMS.flushMs - 1;
  expect(partition.due(TERMS)).not.toContain('charges');
  charges.waiting = 100;
  expect(partition.due(TERMS)).toContain('charges');
  charges.waiting = 99;
  partition.nowMs += 1;
  expect(partition.due(TERMS)).toContain('charges');
});
