import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';

interface Exception {
  readonly file: string;
  /** Missing if the whole file is meant. */
  readonly test?: string;
  readonly reason: string;
}

const root = new URL('../../', import.meta.url);
const read = (file: string): string => readFileSync(new URL(file, root), 'utf8');
const { suites, aboutOneServer } = JSON.parse(read('test/topologies.json')) as {
  suites: string[];
  aboutOneServer: Exception[];
};
const files = suites.flatMap((suite) =>
  readdirSync(new URL(suite, root))
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => `${suite}/${name}`),
);

/**
 * The source of each test in a file, from its name to the next one's. Whatever precedes the first belongs to
 * all tests.
 */
function partsOf(text: string): { name: string | undefined; body: string }[] {
  const starts = [...text.matchAll(/\btest(?:\.each\([^]*?\))?\(\s*(['`])(.*?)\1,/g)];
  const bounds = [0, ...starts.map(({ index }) => index), text.length];
  return [undefined, ...starts.map(([, , name]) => name)].map((name, index) => ({
    name,
    body: text.slice(bounds[index], bounds[index + 1]),
  }));
}

/** Whether it starts a server of its own, or a test clock, on whatever topology it runs. */
const needsOneServer = (body: string): boolean =>
  /\bstartRedis\(/.test(body) || /HOLDFAST_TEST_CLOCK: 'true'(?! \} : \{\})/.test(body);

test('every test of the suites runs on each topology, except those that the list names', () => {
  const oneServer = files.flatMap((file) => {
    const parts = partsOf(read(file)).filter(({ body }) => needsOneServer(body));
    const wholeFile = aboutOneServer.some(
      (exception) => exception.file === file && exception.test === undefined,
    );
    return wholeFile ? [file] : parts.map(({ name }) => `${file}: ${name ?? 'all of its tests'}`);
  });
  const listed = aboutOneServer.map(({ file, test: name }) =>
    name === undefined ? file : `${file}: ${name}`,
  );
  expect([...new Set(oneServer)].sort()).toEqual(listed.sort());
});

test('the part of these suites that runs for a commit depends only on its files, on any day and without git', () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-test-shard-'));
  mkdirSync(join(folder, 'scripts'));
  cpSync(new URL('scripts/shard.mjs', root), join(folder, 'scripts/shard.mjs'));
  mkdirSync(join(folder, 'src'));
  const shard = (): string =>
    spawnSync(process.execPath, [join(folder, 'scripts/shard.mjs'), '3'], {
      encoding: 'utf8',
      cwd: tmpdir(),
    }).stdout.trim();
  const seen = new Set<string>();
  for (let change = 0; change < 12; change += 1) {
    writeFileSync(join(folder, 'src/main.ts'), `change ${change}`);
    const part = shard();
    expect(shard()).toBe(part);
    seen.add(part);
  }
  expect([...seen].sort()).toEqual(['1/3', '2/3', '3/3']);
  expect(read('.ci/run')).toContain('--shard="$shard"');
});
