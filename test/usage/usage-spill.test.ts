import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { RedisService } from '../../src/redis/index.js';
import { UsageService } from '../../src/usage/usage.service.js';
import { publishManyCharges } from '../support/charge-files.js';
import { expectRefusal, expectStatus, Holdfast, type Json } from '../support/holdfast.js';

/* A charge for each of so many users, in two units. Their groups do not fit into the memory. */

const USERS = 600_000;
const MEMORY_MB = 128;
const REPORT =
  '/ops/usage?from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00Z&group_by=day,dimension:user&limit=3';

let folder: string;
let archive: string;
let holdfast: Holdfast;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'usage-spill-'));
  archive = join(folder, 'archive');
  holdfast = await Holdfast.start({ ARCHIVE_DIR: archive, usageMemoryMb: MEMORY_MB });
  await publish(holdfast);
});
afterAll(async () => {
  await holdfast.stop();
  rmSync(folder, { recursive: true });
});

const publish = (owner: Holdfast): Promise<void> =>
  publishManyCharges(
    archive,
    {
      day: '2026-01-02',
      rows: USERS,
      columns: {
        dimensions: `'{"user":"user-' || printf('%06d', i) || '"}'`,
        unit: "CASE WHEN i % 2 = 0 THEN 'TOKENS' ELSE 'USD_MICROCENTS' END",
        charged: 'i',
      },
    },
    owner.app.get(RedisService).deployment.id,
  );

const spills = (): string[] => readdirSync(archive).filter((name) => name.startsWith('.spill-'));
const rowOf = (user: number): Json => ({
  day: '2026-01-02',
  'dimension:user': `user-${String(user).padStart(6, '0')}`,
  unit: user % 2 === 0 ? 'TOKENS' : 'USD_MICROCENTS',
  charged: user,
  count: 1,
});

describe('a report whose groups do not fit into memory', () => {
  test('goes to the disk of the archive, with every sum exact, and leaves nothing there', async () => {
    const first = expectStatus(await holdfast.admin('GET', REPORT), 200);
    expect(first).toMatchObject({ rows: [0, 1, 2].map(rowOf), has_more: true });
    const even = (USERS / 2) * (USERS / 2 - 1);
    expect(first.totals).toMatchObject([
      { unit: 'TOKENS', charged: even, count: USERS / 2 },
      { unit: 'USD_MICROCENTS', charged: even + USERS / 2, count: USERS / 2 },
    ]);
    const last = expectStatus(await holdfast.admin('GET', `${REPORT}&order=-charged`), 200);
    expect(last.rows).toMatchObject([USERS - 1, USERS - 2, USERS - 3].map(rowOf));
    expect(last.totals).toEqual(first.totals);
    expect(spills()).toHaveLength(1);
    process.kill(holdfast.app.get(UsageService).pid as number, 'SIGKILL');
    await holdfast.stop();
    expect(spills()).toEqual([]);
  });

  test('is refused if the disk does not suffice either, and says what it needs', async () => {
    const narrow = await Holdfast.start({
      ARCHIVE_DIR: archive,
      usageMemoryMb: MEMORY_MB,
      usageSpillMb: 1,
    });
    try {
      await publish(narrow);
      const { message } = expectRefusal(await narrow.admin('GET', REPORT), 400, 'INVALID_REQUEST');
      expect(message).toContain(`${MEMORY_MB} MB of memory and 1 MB of disk`);
      // The next one is not concerned.
      const totals = expectStatus(await narrow.admin('GET', '/ops/usage?from=2026-01-01T00:00:00Z'), 200);
      expect(totals.rows).toHaveLength(2);
    } finally {
      await narrow.stop();
    }
  });
});
