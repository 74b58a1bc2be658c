import { readFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { allParts, partsOf, readLua, scriptPaths } from '../../scripts/lua/files.js';
import { expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';

/* How much a reader of a plain reserve has to read: docs/architecture.md says at most how much. */

const ROOT = new URL('../../', import.meta.url);
const PAGE = readFileSync(new URL('docs/architecture.md', ROOT), 'utf8');
const RESERVES = 100;

let holdfast: Holdfast;
let tenant: TestTenant;

beforeAll(async () => {
  holdfast = await Holdfast.start();
  tenant = await holdfast.fundedTenant();
});
afterAll(() => holdfast.stop());

const reserve = async (): Promise<void> => {
  expectStatus(await holdfast.reserve(tenant, 1), 200);
};

/**
 * The files of src with a function that runs for each of them: neither what runs for the first one only,
 * nor what runs beside them now and then.
 */
async function filesOfEach(times: number, work: () => Promise<void>): Promise<string[]> {
  const session = new Session();
  session.connect();
  try {
    await session.post('Profiler.enable');
    await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
    for (let done = 0; done < times; done += 1) {
      await work();
    }
    const { result } = await session.post('Profiler.takePreciseCoverage');
    return result
      .filter(({ functions }) => functions.some(({ ranges: [range] }) => (range?.count ?? 0) >= times))
      .map(({ url }) => url.replace(/\?.*/, ''))
      .filter((url) => url.startsWith(new URL('src/', ROOT).href))
      .map((url) => fileURLToPath(url).slice(fileURLToPath(ROOT).length));
  } finally {
    session.disconnect();
  }
}

test('a plain reserve runs no more files and parts than the page says', async () => {
  await reserve();
  const files = await filesOfEach(RESERVES, reserve);
  const parts = [...partsOf([readLua(scriptPaths().get('reserve') as string)], allParts()).keys()];
  process.stdout.write(`a plain reserve runs ${files.length} files of src:\n${files.sort().join('\n')}\n`);
  process.stdout.write(`its script has ${parts.length} parts: ${parts.sort().join(', ')}\n`);
  const [, most, mostParts] =
    /runs code of at most (\d+) files of `src`, and its script has at most (\d+) parts/.exec(PAGE) ?? [];
  expect(files.length).toBeLessThanOrEqual(Number(most));
  expect(parts.length).toBeLessThanOrEqual(Number(mostParts));
  for (const file of ['src/reservations/reserve/reserve.service.ts', 'src/redis/grouped-calls.ts']) {
    expect(files).toContain(file);
  }
});
