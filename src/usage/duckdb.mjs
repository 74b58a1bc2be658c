// The process that runs DuckDB for the service (query-process.ts) and for npm run archive. It never runs in the service itself: a
// query may take all the memory that it is given, or crash. Its only argument has its limits as JSON. Each message gets one message back: a
// query, one at a time, gets its first rows, and 'next' the following ones, as long as there are more. So a slow reader holds the query up, and
// no more than a few thousand rows are in memory.
//
// It reads files inside one folder, keeps in another what does not fit into memory, and can do nothing else: no other file, no network, no
// extension, no program. What is set here cannot be changed by a query.
import { rmSync, utimesSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

/**
 * `folder` is absolute, as is `spill`, which is made when it is needed. `views` has the relations, as SQL, that queries may read from by their names.
 * @typedef {{ folder: string, memoryMb: number, spill: string, spillMb: number, threads: number }} Limits
 * @typedef {string | number | bigint | boolean | null | readonly string[]} Parameter
 * @typedef {{ sql: string, parameters: Readonly<Record<string, Parameter>>, views?: Readonly<Record<string, string>> }} Query
 * @typedef {{ columns: string[], rows: (string | null)[][], more: boolean } | { error: string }} Result
 */

/** Exit code for a package that is not installed. query-process.ts knows it. */
const NOT_INSTALLED = 64;
/** A spill that nobody touches for five minutes belongs to nobody; see src/archive/spill.ts. */
const TOUCH_MS = 10_000;
const INTERRUPTED_MS = 10_000;

// Instants are printed in UTC, whatever the machine's zone.
process.env.TZ = 'UTC';

/** @type {unknown} */
const given = JSON.parse(process.argv[2] ?? '{}');
const limits = /** @type {Limits} */ (given);

async function installed() {
  try {
    return await import('@duckdb/node-api');
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(NOT_INSTALLED);
  }
}

const duckdb = await installed();

const quoted = (/** @type {string} */ text) => `'${text.replaceAll("'", "''")}'`;

const instance = await duckdb.DuckDBInstance.create(':memory:', {
  threads: String(limits.threads),
  memory_limit: `${limits.memoryMb}MB`,
  // A file that was damaged and restored is read again.
  enable_external_file_cache: 'false',
  temp_directory: limits.spill,
  autoinstall_known_extensions: 'false',
  autoload_known_extensions: 'false',
  allow_community_extensions: 'false',
});
const connection = await instance.connect();
for (const setting of [
  // As an option of `create`, it is shown and not obeyed.
  `SET max_temp_directory_size = '${limits.spillMb}MB'`,
  `SET allowed_directories = [${quoted(limits.folder.replace(/\/*$/, '/'))}]`,
  'SET enable_external_access = false',
  "SET TimeZone = 'UTC'",
  'SET lock_configuration = true',
]) {
  await connection.run(setting);
}

/** @param {Parameter} value */
const bindable = (value) =>
  Array.isArray(value)
    ? duckdb.listValue(value)
    : /** @type {string | number | bigint | boolean | null} */ (value);

/** @type {import('@duckdb/node-api').DuckDBResult | undefined} */
let current;

/** @param {Query} query */
async function begin({ sql, parameters, views = {} }) {
  for (const [name, relation] of Object.entries(views)) {
    await connection.run(`CREATE OR REPLACE VIEW ${name} AS FROM ${relation}`);
  }
  current = undefined;
  const statement = await connection.prepare(sql);
  // COPY could write into the folder, and CREATE or SET would outlive the query.
  if (statement.statementType !== duckdb.StatementType.SELECT) {
    throw new Error('only a SELECT may be run');
  }
  const names = Object.keys(parameters);
  if (names.length > 0) {
    statement.bind(Object.fromEntries(names.map((name) => [name, bindable(parameters[name] ?? null)])));
  }
  current = await statement.stream();
}

/** @returns {Promise<Result>} */
async function next() {
  if (current === undefined) {
    throw new Error('there is no query to go on with');
  }
  const chunk = await current.fetchChunk();
  // An error after the first rows looks like their end, and only the type of the result tells.
  if (current.returnType === duckdb.ResultReturnType.INVALID) {
    throw new Error(
      'the query failed after its first rows, and DuckDB does not say why: a value has no result, a file is damaged, or memory or disk did not suffice',
    );
  }
  const rows = (chunk?.getRows() ?? []).map((row) =>
    row.map((value) => (value === null ? null : String(value))),
  );
  return { columns: current.columnNames(), rows, more: rows.length > 0 };
}

/** @param {Query | 'next'} message @returns {Promise<Result>} */
async function answer(message) {
  if (message !== 'next') {
    await begin(message);
  }
  return next();
}

let answering = Promise.resolve();
process.on('message', (/** @type {Query | 'next'} */ message) => {
  answering = answer(message)
    .catch((error) => ({ error: error instanceof Error ? error.message : String(error) }))
    .then((result) => void (process.connected && process.send?.(result)));
});

setInterval(() => {
  // eslint-disable-next-line no-restricted-syntax -- the time of a file is that of its host
  const now = new Date();
  try {
    utimesSync(limits.spill, now, now);
  } catch {
    // Nothing was spilled yet.
  }
}, TOUCH_MS).unref();
// A terminal and systemd send these to this process, too. It ends with the service, so that it can tidy up.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => undefined);
}
/** @returns {Promise<void>} */
async function tidyUp() {
  // A query that goes on would spill again.
  connection.interrupt();
  await Promise.race([answering, delay(INTERRUPTED_MS)]);
  rmSync(limits.spill, { recursive: true, force: true, maxRetries: 3 });
}

// The service is gone, even if it was killed. `exit` would wait for a query that cannot be interrupted.
process.on('disconnect', () => void tidyUp().finally(() => process.kill(process.pid, 'SIGKILL')));
