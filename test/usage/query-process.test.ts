import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { archivedRows, filesText } from '../../src/usage/archived-rows.js';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { FileQueryFailed, type FileRows, QueryProcess } from '../../src/usage/query-process.js';
import { publishCharges } from '../support/charge-files.js';
import { eventually } from '../support/eventually.js';

let root: string;
let folder: string;
let charges: string[];
let process_: QueryProcess;

const LIMITS = { memoryMb: 128, spillMb: 0, threads: 1, timeoutMs: 60_000 };

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), 'query-process-'));
  folder = join(root, "it's an archive");
  mkdirSync(folder);
  writeFileSync(join(root, 'secret.csv'), 'a\nsecret\n');
  charges = await publishCharges(folder, [{ recorded_at: Date.parse('2026-01-02T00:00:00Z'), charged: 5 }]);
  process_ = new QueryProcess({ ...LIMITS, folder });
});
afterEach(() => process_.stop());
afterAll(() => rmSync(root, { recursive: true }));

const run = (sql: string, views = {}): Promise<FileRows> => process_.run({ sql, parameters: {}, views });

/** A million rows take about twice the memory, and as much of the disk. */
const TIGHT = { ...LIMITS, memoryMb: 64, spillMb: 1000 };
const sorted = (rows: number): string =>
  `SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY md5(range::VARCHAR)) AS n FROM range(${rows}))`;

const spills = (): string[] => readdirSync(folder).filter((name) => name.startsWith('.spill-'));

async function failureOf(query: Promise<unknown>): Promise<FileQueryFailed> {
  const error = await query.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(FileQueryFailed);
  return error as FileQueryFailed;
}

describe('the process of DuckDB', () => {
  test('reads the files of the folder, through views with the names of relations', async () => {
    expect(
      await run('SELECT sum(charged) AS s FROM charges', {
        charges: archivedRows(filesText(charges), []),
      }),
    ).toEqual({
      columns: ['s'],
      rows: [['5']],
    });
    expect(await run('SELECT 1 AS one WHERE false')).toEqual({ columns: ['one'], rows: [] });
  });

  test('gives rows in batches, no faster than they are asked for, and a reader may leave', async () => {
    let rows = 0;
    for await (const batch of process_.stream({
      sql: 'SELECT range FROM range(100000000000)',
      parameters: {},
    })) {
      rows += batch.rows.length;
      if (rows > 100_000) {
        break;
      }
    }
    const { pid } = process_;
    expect((await run('SELECT 1')).rows).toEqual([['1']]);
    expect(process_.pid).toBe(pid);
  });

  test('does not take an error after the first rows for their end', async () => {
    const sql = "SELECT CASE range WHEN 500000 THEN error('made up') ELSE range END FROM range(1000000)";
    const { failure, message } = await failureOf(run(sql));
    expect([failure, message]).toEqual(['refused', expect.stringContaining('failed after its first rows')]);
    expect((await run('SELECT 1')).rows).toEqual([['1']]);
  });

  test('spills what does not fit into memory, and leaves nothing behind', async () => {
    const tight = new QueryProcess({ ...TIGHT, folder });
    expect((await tight.run({ sql: sorted(1_000_000), parameters: {} })).rows).toEqual([['1000000']]);
    expect(spills()).toHaveLength(1);
    await tight.stop();
    expect(spills()).toEqual([]);
  });

  test('removes its spill if it is killed', async () => {
    const tight = new QueryProcess({ ...TIGHT, folder });
    const failure = failureOf(tight.run({ sql: sorted(20_000_000), parameters: {} }));
    await eventually('it spills', () => spills().length > 0);
    process.kill(tight.pid as number, 'SIGKILL');
    expect((await failure).failure).toBe('died');
    expect(spills()).toEqual([]);
  });

  test('removes its spill if the process that asked is killed, or a terminal ends both', async () => {
    const script = join(root, 'asks.mjs');
    const source = new URL('../../src/usage/duckdb.mjs', import.meta.url).pathname;
    const spill = join(folder, '.spill-made-up');
    const limits = { folder, memoryMb: 64, spill, spillMb: 1000, threads: 1 };
    writeFileSync(
      script,
      `import { fork } from 'node:child_process';
       const child = fork(${JSON.stringify(source)}, [${JSON.stringify(JSON.stringify(limits))}]);
       child.send({ sql: ${JSON.stringify(sorted(20_000_000))}, parameters: {} });
       console.log(child.pid);`,
    );
    const asks = spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [pid] = (await once(asks.stdout, 'data')) as [Buffer];
    await eventually('it spills', () => spills().length > 0);
    process.kill(Number(pid), 'SIGINT');
    asks.kill('SIGKILL');
    await eventually('it is removed', () => spills().length === 0);
    await eventually('it has ended', () => !existsSync(`/proc/${Number(pid)}`));
  });

  test('spills no more than its limit, and goes on', async () => {
    const narrow = new QueryProcess({ ...TIGHT, spillMb: 1, folder });
    const { failure, message } = await failureOf(narrow.run({ sql: sorted(1_000_000), parameters: {} }));
    expect(failure).toBe('refused');
    expect(message).toMatch(/^Out of Memory Error: failed to offload .*used/);
    expect((await narrow.run({ sql: 'SELECT 1', parameters: {} })).rows).toEqual([['1']]);
    await narrow.stop();
  });

  test.each([
    ['a file elsewhere', `SELECT * FROM read_csv('$ROOT/secret.csv')`],
    ['a file elsewhere, by a way through the folder', `SELECT * FROM read_text('$FOLDER/../secret.csv')`],
    ['the names of files elsewhere', `SELECT * FROM glob('$ROOT/*')`],
    ['a program', `SELECT * FROM read_csv('cat /etc/passwd |')`],
    ['the network', `SELECT * FROM read_csv('http://127.0.0.1:1/x.csv')`],
    ['an extension', 'INSTALL httpfs'],
    ['a setting', 'SET enable_external_access = true'],
    ['another setting', 'RESET lock_configuration'],
    ['a database', `ATTACH '$FOLDER/x.db'`],
    ['writing into the folder', `COPY (SELECT 1) TO '$FOLDER/x.csv'`],
    ['a table', 'CREATE TABLE t (a INT)'],
    ['two statements', 'SELECT 1; SELECT 2'],
  ])('refuses %s', async (_what, sql) => {
    const quoted = (path: string): string => path.replaceAll("'", "''");
    const text = sql.replace('$ROOT', quoted(root)).replace('$FOLDER', quoted(folder));
    const { failure, message } = await failureOf(run(text));
    expect({ failure, isTold: message.includes('secret\n') }).toEqual({ failure: 'refused', isTold: false });
    expect(readdirSync(folder).sort()).toEqual(['archive.json', 'published']);
  });

  test('gives a query no more memory than its limit, and goes on', async () => {
    const { failure, message } = await failureOf(
      run("SELECT list(range || repeat('x', 99)) FROM range(9000000)"),
    );
    expect(failure).toBe('refused');
    expect(message).toMatch(/^Out of Memory Error/);
    expect((await run('SELECT 1')).rows).toEqual([['1']]);
  });

  test('has none of the secrets of its parent', async () => {
    await run('SELECT 1');
    const variables = readFileSync(`/proc/${process_.pid}/environ`, 'utf8').split('\0');
    expect(variables.map((variable) => variable.split('=')[0])).toEqual([
      'NODE_CHANNEL_FD',
      'NODE_CHANNEL_SERIALIZATION_MODE',
      '',
    ]);
  });

  test('is stopped at its time limit, and starts again for the next query', async () => {
    const slow = new QueryProcess({ ...LIMITS, timeoutMs: 1, folder });
    expect((await failureOf(slow.run({ sql: 'SELECT 1', parameters: {} }))).failure).toBe('timeout');
    expect(slow.pid).toBeUndefined();
    expect((await run('SELECT 1')).rows).toEqual([['1']]);
  });

  test('is stopped when nobody waits any more', async () => {
    const gone = new AbortController();
    const query = process_.run(
      { sql: 'SELECT count(*) FROM range(100000000000) a', parameters: {} },
      gone.signal,
    );
    gone.abort();
    expect((await failureOf(query)).failure).toBe('gone');
    expect((await run('SELECT 1')).rows).toEqual([['1']]);
  });

  test('tells of its death, and starts again for the next query', async () => {
    await run('SELECT 1');
    const pid = process_.pid as number;
    const query = run('SELECT count(*) FROM range(100000000000) a');
    process.kill(pid, 'SIGKILL');
    const { failure, message } = await failureOf(query);
    expect(failure).toBe('died');
    expect(message).toContain('SIGKILL');
    expect((await run('SELECT 1')).rows).toEqual([['1']]);
    expect(process_.pid).not.toBe(pid);
  });

  test('says when DuckDB is not installed', async () => {
    const script = join(root, 'duckdb.mjs');
    copyFileSync(new URL('../../src/usage/duckdb.mjs', import.meta.url), script);
    const without = new QueryProcess({ ...LIMITS, folder }, script);
    const { failure } = await failureOf(without.run({ sql: 'SELECT 1', parameters: {} }));
    expect(failure).toBe('missing');
  });
});
