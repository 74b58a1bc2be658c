import { mkdtempSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { queryArchive } from '../../src/cli/archive-query.js';
import { publishCharges } from '../support/charge-files.js';

let folder: string;
let files: string[];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'archive-query-'));
  files = await publishCharges(folder, [
    { recorded_at: Date.parse('2026-01-30T00:00:00Z'), charged: 5, action_kind: '=1+1' },
    { recorded_at: Date.parse('2026-01-31T23:00:00Z'), charged: 6, action_kind: 'tool.call' },
    { recorded_at: Date.parse('2026-02-01T00:00:00Z'), charged: 7, action_kind: 'tool.call' },
    { recorded_at: Date.parse('2026-02-01T01:00:00Z'), charged: 7, source: 'CORRECTION' },
  ]);
});
afterAll(() => rmSync(folder, { recursive: true }));

async function query(sql: string): Promise<{ isDone: boolean; printed: string[]; warned: string[] }> {
  const [printed, warned]: [string[], string[]] = [[], []];
  const isDone = await queryArchive({
    folder,
    sql,
    print: (text) => printed.push(...text.split('\n')),
    warn: (text) => warned.push(text),
  });
  return { isDone, printed, warned };
}

test('a query of the archive prints CSV without formulas', async () => {
  const { printed } = await query(
    "SELECT action_kind, sum(charged) AS charged FROM charges WHERE source <> 'CORRECTION' GROUP BY ALL ORDER BY ALL",
  );
  expect(printed).toEqual(['action_kind,charged', "'=1+1,5", 'tool.call,13']);
});

test('the query for DuckDB in docs/usage.md does what it says', async () => {
  const page = readFileSync(new URL('../../docs/usage.md', import.meta.url), 'utf8');
  const [, sql = ''] = /DuckDB, in the folder of the archive:\n\n```sql\n([^]*?)```/.exec(page) ?? [];
  const { printed } = await query(sql.replace("'published/", `'${folder}/published/`));
  expect(printed).toEqual([
    'month,tenant,action_kind,unit,charged,count',
    "2026-01-01 00:00:00+00,acme,'=1+1,TOKENS,5,1",
    '2026-01-01 00:00:00+00,acme,tool.call,TOKENS,6,1',
    '2026-02-01 00:00:00+00,acme,tool.call,TOKENS,7,1',
  ]);
});

test('before the first published day, it says so', async () => {
  const warned: string[] = [];
  const empty = mkdtempSync(join(folder, 'empty-'));
  const options = { folder: empty, sql: 'SELECT 1', print: () => undefined };
  expect(await queryArchive({ ...options, warn: (text) => warned.push(text) })).toBe(false);
  expect(warned).toEqual(['no day of the archive is published yet; a day is published after midnight UTC']);
});

test('a query prints a million rows, while they come', async () => {
  let [prints, characters] = [0, 0];
  let last: string | undefined;
  const isDone = await queryArchive({
    folder,
    sql: "SELECT range AS n, repeat('x', 200) AS wide FROM range(1000000)",
    print: (text) => {
      prints += 1;
      characters += text.length + 1;
      last = text;
    },
    warn: (text) => expect(text).toBe(''),
  });
  expect({ isDone, last: last?.split('\n').at(-1)?.slice(0, 10) }).toEqual({
    isDone: true,
    last: '999999,xxx',
  });
  expect(characters).toBe('n,wide\n'.length + 5_888_890 + 1_000_000 * 202);
  expect(prints).toBeGreaterThan(400);
});

test('a query that fails in its middle says so, and how many rows it has printed', async () => {
  const { isDone, printed, warned } = await query(
    "SELECT CASE range WHEN 500000 THEN error('made up') ELSE range END AS n FROM range(1000000)",
  );
  expect(isDone).toBe(false);
  expect(printed.at(-1)).toBe(String(printed.length - 2));
  expect(warned).toEqual([
    expect.stringContaining('failed after its first rows'),
    `the rows above are not all: it stopped after ${printed.length - 1}`,
  ]);
});

test('a query that may not be run is refused with the reason', async () => {
  for (const sql of ['DROP VIEW charges', "SELECT * FROM read_text('/etc/hostname')", 'SELECT nothing']) {
    const { isDone, printed, warned } = await query(sql);
    expect({ isDone, printed, isTold: warned.join('').length > 10 }).toEqual({
      isDone: false,
      printed: [],
      isTold: true,
    });
  }
});

test('a query names the damaged files that it leaves out', async () => {
  truncateSync(files[0] as string, 10);
  const { printed, warned } = await query('SELECT count(*) AS n FROM charges');
  expect(printed).toEqual(['n', '3']);
  expect(warned).toEqual(['left out: published/day=2026-01-30/charges.parquet (CUT)']);
});
