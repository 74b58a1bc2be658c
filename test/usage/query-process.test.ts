import { archivedRows, filesText } from '../../src/usage/archived-rows.js';
import {
  copyFileSync,
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

let root: string;
let folder: string;
let charges: string[];
let process_: QueryProcess;

const LIMITS = { memoryMb: 128, threads: 1, timeoutMs: 60_000 };

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

const run = (sql: string, most = 10, views = {}): Promise<FileRows> =>
  process_.run({ sql, parameters: {}, views, most });

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
      await run('SELECT sum(charged) AS s FROM charges', 10, {
        charges: archivedRows(filesText(charges), []),
      }),
    ).toEqual({
      columns: ['s'],
      rows: [['5']],
      more: false,
    });
    expect(await run('SELECT * FROM range(5)', 2)).toEqual({
      columns: ['range'],
      rows: [['0'], ['1']],
      more: true,
    });
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
    expect(readdirSync(folder)).toEqual(['archive.json', 'published']);
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
    expect((await failureOf(slow.run({ sql: 'SELECT 1', parameters: {}, most: 1 }))).failure).toBe('timeout');
    expect(slow.pid).toBeUndefined();
    expect((await run('SELECT 1')).rows).toEqual([['1']]);
  });

  test('is stopped when nobody waits any more', async () => {
    const gone = new AbortController();
    const query = process_.run(
      { sql: 'SELECT count(*) FROM range(100000000000) a', parameters: {}, most: 1 },
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
    copyFileSync(new URL('../../scripts/duckdb.mjs', import.meta.url), script);
    const without = new QueryProcess({ ...LIMITS, folder }, script);
    const { failure } = await failureOf(without.run({ sql: 'SELECT 1', parameters: {}, most: 1 }));
    expect(failure).toBe('missing');
  });
});
