import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { ParquetThread } from '../../src/archive/parquet-thread.js';
import { STREAM_COLUMNS } from '../../src/archive/stream-columns.js';

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
      : thread.run({ kind, path: damaged, columns: columns.map(({ name }) => name) });
  await expect(task).rejects.toThrow(`${damaged} cannot be read: `);
});

test.each(['write', 'rewrite', 'text'] as const)(
  'a %s that cannot take its name closes its file once, and leaves nothing behind',
  async (kind) => {
    // A folder that is not empty has the name.
    const path = join(folder, `taken-${kind}`);
    await mkdir(join(path, 'inside'), { recursive: true });
    const columns = STREAM_COLUMNS.audit;
    const task = { kind, path, columns, parts: [], inputs: [], sortBy: [], text: 'x' };
    const script = new URL('../../scripts/archive-thread.mjs', import.meta.url).href;
    // The number of a file that is closed may be that of another one by the next call.
    const program = `
      import fs from 'node:fs';
      import { syncBuiltinESMExports } from 'node:module';
      import { parentPort } from 'node:worker_threads';
      const close = fs.closeSync;
      const refused = [];
      fs.closeSync = (descriptor) => {
        try {
          close(descriptor);
        } catch (error) {
          refused.push(error.code);
          throw error;
        }
      };
      syncBuiltinESMExports();
      await import(${JSON.stringify(script)});
      const post = parentPort.postMessage.bind(parentPort);
      parentPort.postMessage = (answer) => post({ ...answer, refused });`;
    const own = new Worker(new URL(`data:text/javascript,${encodeURIComponent(program)}`));
    try {
      own.postMessage({ id: 1, task });
      const [answer] = (await once(own, 'message')) as [{ error: { code: string }; refused: string[] }];
      expect([answer.error.code, answer.refused]).toEqual(['EISDIR', []]);
      expect((await readdir(folder)).filter((name) => name.startsWith(`.taken-${kind}`))).toEqual([]);
    } finally {
      await own.terminate();
    }
  },
);

// As root, who may raise a priority, it shows nothing.
test('a process that has a low priority, as under nice, has the thread, too', () => {
  const path = fileURLToPath(new URL('../../scripts/archive-thread.mjs', import.meta.url));
  const program = `
    import { setPriority } from 'node:os';
    import { Worker } from 'node:worker_threads';
    setPriority(15);
    const thread = new Worker(${JSON.stringify(path)}, { execArgv: [] });
    thread.on('message', ({ error }) => {
      process.stdout.write(error.code);
      void thread.terminate();
    });
    thread.postMessage({ id: 1, task: { kind: 'check', path: ${JSON.stringify(join(folder, 'none'))}, columns: [] } });`;
  const { status, stdout } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
    encoding: 'utf8',
  });
  expect([status, stdout]).toEqual([0, 'ENOENT']);
});
