// How long reports of usage take over a year of made-up charges, as the service runs them: the same statement, in the same process.
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { importBuilt } from '../scripts/install.mjs';
import { cpuSecondsOf } from './cpu.mjs';
import { unlessShort } from './duration.mjs';
import { aim, hundredths, median, say, tableOf, whole } from './report.mjs';

const { CHARGE_COLUMNS } = /** @type {typeof import('../src/archive/charge-columns.ts')} */ (
  await importBuilt('archive/charge-columns.js')
);
const { QueryProcess } = /** @type {typeof import('../src/usage/query-process.ts')} */ (
  await importBuilt('usage/query-process.js')
);
const { reportStatement } = /** @type {typeof import('../src/usage/report-sql.ts')} */ (
  await importBuilt('usage/report-sql.js')
);
const { offsetsIn } = /** @type {typeof import('../src/usage/time-zone.ts')} */ (
  await importBuilt('usage/time-zone.js')
);
const { CONSTANTS } = /** @type {typeof import('../src/config/constants.ts')} */ (
  await importBuilt('config/constants.js')
);

const DAY_MS = 86_400_000;
const YEAR_MS = Date.UTC(2026, 0, 1);
const DAYS = unlessShort(365, 10);
const ROWS = unlessShort(3_000_000, 10_000);
const ROUNDS = unlessShort(5, 1);
const TARGET_MS = 1000;
const ZONE = 'Europe/Berlin';

/** Made-up values of row `i`, of which those that clients choose at random are texts of 16 hex digits. */
const VALUES = {
  partition: 'i % 64',
  entry: "epoch_ms(ts)::VARCHAR || '-0'",
  record_id: "'rsv_' || substr(md5(i::VARCHAR), 1, 18)",
  source: "CASE WHEN i % 20 = 0 THEN 'DIRECT_DEBIT' ELSE 'RESERVATION' END",
  state:
    "CASE WHEN i % 20 = 0 THEN 'APPLIED' WHEN i % 20 = 1 THEN 'RELEASED' WHEN i % 20 = 2 THEN 'EXPIRED' ELSE 'COMMITTED' END",
  recorded_at: 'ts',
  ended_at: 'ts',
  created_at: 'ts - to_milliseconds(hash(i) % 20000)',
  tenant: "'tenant-' || hash(i) % 50",
  scope: "'tenant:tenant-' || hash(i) % 50 || '/app:chat/agent:agent-' || hash(i + 1) % 40",
  app: "'chat'",
  agent: "'agent-' || hash(i + 1) % 40",
  scope_mask: "'111'",
  unit: "CASE WHEN i % 3 = 0 THEN 'USD_MICROCENTS' ELSE 'TOKENS' END",
  reserved: 'hash(i + 2) % 100000',
  charged: 'hash(i + 3) % 90000',
  actual: 'hash(i + 3) % 90000',
  debt: '0',
  overage_policy: "'REJECT'",
  action_kind: "CASE WHEN i % 4 = 0 THEN 'tool.call' ELSE 'llm.completion' END",
  action_name: "'model-' || hash(i + 4) % 20",
  dimensions: `'{"team":"team-' || hash(i + 5) % 30 || '"}'`,
  key_id: "'key_' || hash(i) % 50",
  idempotency_key: 'substr(md5((i + 6)::VARCHAR), 1, 16)',
  request_id: "'req_' || substr(md5((i + 7)::VARCHAR), 1, 24)",
  trace_id: 'md5((i + 8)::VARCHAR)',
  model_version: "'v' || hash(i + 4) % 5",
  tokens_input: 'hash(i + 9) % 8000',
  tokens_output: 'hash(i + 10) % 2000',
  latency_ms: 'hash(i + 11) % 30000',
};

/** @param {string} root */
async function publishYear(root) {
  const connection = await (await DuckDBInstance.create(':memory:')).connect();
  /** @type {Readonly<Record<string, string>>} */
  const values = VALUES;
  const columns = CHARGE_COLUMNS.map(
    ({ name, type }) => `CAST(${values[name] ?? 'NULL'} AS ${type}) AS "${name}"`,
  );
  const perDay = Math.floor(ROWS / DAYS);
  const files = [];
  for (let day = 0; day < DAYS; day += 1) {
    const startMs = YEAR_MS + day * DAY_MS;
    const folder = join(root, 'published', `day=${new Date(startMs).toISOString().slice(0, 10)}`);
    mkdirSync(folder, { recursive: true });
    const file = join(folder, 'charges.parquet');
    const rows = day < DAYS - 1 ? perDay : ROWS - perDay * (DAYS - 1);
    await connection.run(
      `COPY (SELECT ${columns.join(', ')} FROM
         (SELECT i, make_timestamp((${startMs} + (i - ${day * perDay}) * ${DAY_MS} // ${rows}) * 1000) AS ts
          FROM range(${day * perDay}, ${day * perDay + rows}) AS r(i))
       ORDER BY tenant, recorded_at) TO '${file}' (FORMAT parquet, COMPRESSION zstd)`,
    );
    files.push(file);
  }
  connection.closeSync();
  return files;
}

/** @typedef {{ name: string, ms: number[], cpu: number[], rows: number }} Row  cpu in seconds */

/** Reports that people ask for, by what they group by. */
const REPORTS = {
  'spend per day and action': ['day', 'action_kind', 'action_name'],
  'spend per month': ['month'],
  'spend per hour': ['hour'],
  'spend per tenant and scope': ['tenant', 'scope'],
  'spend per day and team, a dimension': ['day', 'dimension:team'],
};

/** @returns {Promise<import('./types.ts').Measured>} */
export async function measure() {
  const root = mkdtempSync(join(tmpdir(), 'hf-bench-usage-'));
  try {
    say(`writing ${whole(ROWS)} charges`);
    const files = await publishYear(root);
    const bytes = files.reduce((sum, file) => sum + statSync(file).size, 0);
    const rows = [];
    for (const [name, groups] of Object.entries(REPORTS)) {
      say(name);
      // The first one warms up.
      const [, ...rounds] = await timesOf(root, groups, files, 1 + ROUNDS);
      rows.push({
        name,
        ms: rounds.map(({ ms }) => ms),
        cpu: rounds.map(({ cpu }) => cpu),
        rows: rounds[0]?.rows ?? 0,
      });
    }
    const [first] = rows;
    const [cold] = await timesOf(root, REPORTS['spend per day and action'], files, 1);
    const unit = ' ms';
    return {
      title: 'Usage',
      subject: `Reports over ${whole(ROWS)} made-up charges in ${DAYS} published days, in the time zone ${ZONE}: ${CONSTANTS.usageThreads} threads, ${CONSTANTS.usageMemoryMb} MB.`,
      store: 'no Redis',
      tables: [tableOf(rows, COLUMNS, 1)],
      figures: [
        aim('spend per day and action over a year', first?.ms ?? [], {
          unit,
          atMost: TARGET_MS,
          isHeadline: true,
        }),
        aim('CPU of it', first?.cpu ?? [], { text: hundredths, unit: ' s' }),
        aim('the same, with the start of the process', cold?.ms ?? NaN, { unit }),
        aim('bytes a charge', bytes / ROWS),
      ],
    };
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

/**
 * Makes a report so many times, in one process.
 * @param {string} folder
 * @param {readonly string[]} groups
 * @param {readonly string[]} files
 * @param {number} times
 */
async function timesOf(folder, groups, files, times) {
  const process = new QueryProcess({
    folder,
    memoryMb: CONSTANTS.usageMemoryMb,
    spillMb: CONSTANTS.usageSpillMb,
    threads: CONSTANTS.usageThreads,
    timeoutMs: CONSTANTS.usageTimeoutMs,
  });
  const [fromMs, toMs] = [YEAR_MS, YEAR_MS + DAYS * DAY_MS];
  const statement = reportStatement(
    {
      fromMs,
      toMs,
      offsets: offsetsIn(ZONE, fromMs, toMs),
      groups,
      scopeDepth: undefined,
      equals: {},
      dimension: undefined,
      scope: undefined,
      tenants: undefined,
      segments: [],
      order: undefined,
      limit: 10_000,
    },
    files,
  );
  const cpuOf = () => (process.pid === undefined ? 0 : cpuSecondsOf(process.pid));
  const measured = [];
  while (measured.length < times) {
    const [began, before] = [performance.now(), cpuOf()];
    const { rows } = await process.run(statement);
    measured.push({ ms: performance.now() - began, cpu: cpuOf() - before, rows: rows.length });
  }
  await process.stop();
  return measured;
}

/** @type {Record<string, (row: Row) => string>} */
const COLUMNS = {
  report: ({ name }) => name,
  rows: ({ rows }) => whole(rows),
  'median ms': ({ ms }) => whole(median(ms)),
  'slowest ms': ({ ms }) => whole(Math.max(...ms)),
  'CPU s': ({ cpu }) => hundredths(median(cpu)),
};
