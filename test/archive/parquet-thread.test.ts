import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { parquetMetadata } from 'hyparquet';
import { rowsText } from '../../src/archive/parquet-tasks.js';
import { DamagedFile, ParquetThread } from '../../src/archive/parquet-thread.js';
import { STREAM_COLUMNS } from '../../src/archive/stream-columns.js';
import { archivedRows, filesText, QueryProcess } from '../../src/usage/index.js';

const thread = new ParquetThread();
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parquet-'));
});
afterAll(async () => {
  await thread.stop();
  await rm(folder, { recursive: true, force: true });
});

test.each(['rewrite', 'check'] as const)('the failure to %s a damaged file names the file', async (kind) => {
  // Long enough, and with the marks of a Parquet file, as after a crash of the disk's cache.
  const damaged = join(folder, `1-0_2-0-${kind}.parquet`);
  await writeFile(damaged, `PAR1${'x'.repeat(100)}PAR1`);
  const columns = STREAM_COLUMNS.charges;
  const task =
    kind === 'rewrite'
      ? thread.run({ kind, path: join(folder, 'day.parquet'), columns, inputs: [damaged], sortBy: [] })
      : thread.run({ kind, path: damaged, columns });
  await expect(task).rejects.toThrow(`${damaged} cannot be read: `);
});

test('readers are told that instants are in UTC', async () => {
  const path = join(folder, 'instants.parquet');
  const columns = STREAM_COLUMNS.charges;
  const row = columns.map(({ name }) => (name === 'recorded_at' ? Date.parse('2026-01-31T23:30:00Z') : null));
  await thread.run({ kind: 'write', path, columns, parts: [rowsText(columns, [row])] });
  const { schema } = parquetMetadata(new Uint8Array(await readFile(path)).buffer);
  const instants = columns.filter(({ type }) => type === 'TIMESTAMP').map(({ name }) => name);
  expect(instants.length).toBeGreaterThan(2);
  for (const name of instants) {
    expect(schema.find((column) => column.name === name)).toMatchObject({
      converted_type: 'TIMESTAMP_MILLIS',
      logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MILLIS' },
    });
  }
  const process_ = new QueryProcess({ folder, memoryMb: 128, spillMb: 0, threads: 1, timeoutMs: 60_000 });
  const sql = 'SELECT typeof(recorded_at), recorded_at FROM charges';
  const { rows } = await process_.run({
    sql,
    parameters: {},
    views: { charges: archivedRows(filesText([path]), []) },
  });
  await process_.stop();
  expect(rows).toEqual([['TIMESTAMP WITH TIME ZONE', '2026-01-31 23:30:00+00']]);
});

test('a file with any changed byte is named and ends, even one that its reader never ends with, and the next task is done', async () => {
  const columns = STREAM_COLUMNS.audit;
  const rows = Array.from({ length: 20 }, (_, index) =>
    columns.map(({ name, type }) => (type === 'VARCHAR' ? `${name} ${index}` : index)),
  );
  const path = join(folder, '3-0_4-0.parquet');
  const parts = [rowsText(columns, rows)];
  await thread.run({ kind: 'write', path, columns, parts });
  const sound = await readFile(path);
  let [ended, named, never] = [0, 0, 0];
  const hasty = new ParquetThread(() => {
    ended += 1;
  }, 2000);
  // A prime, so that it meets all parts of the repeating structures.
  for (let offset = 0; offset < sound.length; offset += 7) {
    const changed = Buffer.from(sound);
    changed[offset] = (changed[offset] as number) ^ 0xff;
    await writeFile(path, changed);
    const before = ended;
    const [check, next] = await Promise.allSettled([
      hasty.run({ kind: 'check', path, columns }),
      hasty.run({ kind: 'hash', path }),
    ]);
    expect(next.status).toBe('fulfilled');
    never += ended - before;
    if (check.status === 'rejected') {
      named += 1;
      expect(check.reason).toBeInstanceOf(DamagedFile);
      expect(check.reason).toMatchObject({ path });
    } else {
      expect(check.value.rows).toBe(rows.length);
    }
  }
  await hasty.stop();
  expect(named).toBeGreaterThan(sound.length / 7 / 2);
  expect(never).toBeGreaterThan(0);
});

/** What a task does to files, in order, in a thread of its own. */
async function recorded(task: object): Promise<{ code: string | undefined; calls: string[] }> {
  const script = new URL('../../src/archive/archive-thread.mjs', import.meta.url).href;
  const program = `
    import fs from 'node:fs';
    import { syncBuiltinESMExports } from 'node:module';
    import { parentPort } from 'node:worker_threads';
    const calls = [];
    const real = { ...fs };
    const names = new Map();
    fs.openSync = (path, ...more) => {
      const descriptor = real.openSync(path, ...more);
      names.set(descriptor, fs.fstatSync(descriptor).isDirectory() ? 'folder' : 'file');
      return descriptor;
    };
    for (const call of ['fsync', 'close', 'rename']) {
      fs[call + 'Sync'] = (what, ...more) => {
        try {
          real[call + 'Sync'](what, ...more);
          calls.push(call + ' ' + (names.get(what) ?? 'file'));
        } catch (error) {
          calls.push(call + ' ' + error.code);
          throw error;
        }
      };
    }
    syncBuiltinESMExports();
    await import(${JSON.stringify(script)});
    const post = parentPort.postMessage.bind(parentPort);
    parentPort.postMessage = (message) => {
      if (!('reading' in message)) {
        post({ code: message.error?.code, calls });
      }
    };`;
  const own = new Worker(new URL(`data:text/javascript,${encodeURIComponent(program)}`));
  try {
    own.postMessage(task);
    const [answer] = (await once(own, 'message')) as [Awaited<ReturnType<typeof recorded>>];
    return answer;
  } finally {
    await own.terminate();
  }
}

// The number of a file that is closed twice may be that of another one by the second time.
test.each(['write', 'rewrite', 'text'] as const)(
  'a %s has its name when it is on the disk, and closes its file once, also if it cannot take the name',
  async (kind) => {
    const columns = STREAM_COLUMNS.audit;
    const task = { kind, columns, parts: [], inputs: [], sortBy: [], text: 'x' };
    const done = ['fsync file', 'close file', 'rename file', 'fsync folder', 'close folder'];
    expect(await recorded({ ...task, path: join(folder, `free-${kind}`) })).toEqual({ calls: done });
    // A folder that is not empty has the name.
    const path = join(folder, `taken-${kind}`);
    await mkdir(join(path, 'inside'), { recursive: true });
    expect(await recorded({ ...task, path })).toEqual({
      code: 'EISDIR',
      calls: ['fsync file', 'close file', 'rename EISDIR'],
    });
    expect((await readdir(folder)).filter((name) => name.startsWith('.'))).toEqual([]);
  },
);

// As root, who may raise a priority, it shows nothing.
test('a process that has a low priority, as under nice, has the thread, too', () => {
  const path = fileURLToPath(new URL('../../src/archive/archive-thread.mjs', import.meta.url));
  const program = `
    import { setPriority } from 'node:os';
    import { Worker } from 'node:worker_threads';
    setPriority(15);
    const thread = new Worker(${JSON.stringify(path)}, { execArgv: [] });
    thread.on('message', ({ error }) => {
      process.stdout.write(error.code);
      void thread.terminate();
    });
    thread.postMessage({ kind: 'hash', path: ${JSON.stringify(join(folder, 'none'))} });`;
  const { status, stdout } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
    encoding: 'utf8',
  });
  expect([status, stdout]).toEqual([0, 'ENOENT']);
});
