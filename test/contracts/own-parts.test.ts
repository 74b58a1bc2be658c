import { readFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { ROLES } from '../../src/config/parsers.js';
import { type Job, Worker } from '../../src/worker/worker.js';
import { Holdfast } from '../support/holdfast.js';
import { startStore, type Store } from '../support/store.js';

/** Documents name what is Holdfast's own, and the protocol does not list. */
const page = (name: string): string =>
  readFileSync(new URL(`../../docs/${name}.md`, import.meta.url), 'utf8');

let store: Store;
let holdfast: Holdfast;
const jobs: Job[] = [];

beforeAll(async () => {
  const add = jest.spyOn(Worker.prototype, 'add');
  store = await startStore();
  holdfast = await Holdfast.start({
    REDIS_URL: store.url,
    HOLDFAST_ROLES: ROLES.join(','),
    HOLDFAST_TEST_CLOCK: 'true',
    RECORD_ACTIVITY: 'true',
    ARCHIVE_DIR: join(await mkdtemp(join(tmpdir(), 'own-parts-')), 'archive'),
  });
  jobs.push(...add.mock.calls.map(([job]) => job));
  add.mockRestore();
});
afterAll(async () => {
  await holdfast.stop();
  await store.stop();
});

test('every background job with its role', () => {
  const [, table = ''] = /<!-- jobs -->([^]*?)<!-- \/jobs -->/.exec(page('monitoring')) ?? [];
  const listed = [...table.matchAll(/^\| (`.+?`) \| (\w+) \|/gm)].flatMap(([, names = '', role]) =>
    names.split(', ').map((name) => `${name} ${role}`),
  );
  expect(listed.sort()).toEqual(jobs.map(({ name, role }) => `\`${name}\` ${role}`).sort());
});

test('every path under /ops', async () => {
  const { paths } = JSON.parse((await holdfast.call('GET', '/openapi.json')).text);
  const plain = (path: string): string => path.replaceAll(/\{\w+\}/g, '{}');
  const [, section = ''] = /^## Endpoints$([^]*?)^## /m.exec(page('administration')) ?? [];
  const named = [...section.matchAll(/(\/ops\/[\w/{}-]+)[^`]*`( and paths below it)?/g)].map(
    ([, path = '', below]) => ({ path: plain(path), isWhole: below === undefined }),
  );
  const own = Object.keys(paths).filter((path) => path.startsWith('/ops/'));
  expect(own.length).toBeGreaterThan(10);
  const isNamed = (path: string): boolean =>
    named.some((one) => (one.isWhole ? one.path === path : path.startsWith(one.path)));
  expect(own.filter((path) => !isNamed(plain(path)))).toEqual([]);
});
