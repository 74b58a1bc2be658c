// The process that runs DuckDB for the service (src/usage/query-process.ts) and for npm run archive. It never runs in the service itself: a
// query may take all the memory that it is given, or crash. Its only argument has its limits as JSON. Queries come as messages, one at a
// time, and each gets one message back.
//
// It reads files inside one folder and can do nothing else: no other file, no network, no extension, no program. What is set here cannot be
// changed by a query.

/**
 * `folder` is absolute. `views` has the relations, as SQL, that queries may read from by their names.
 * @typedef {{ folder: string, memoryMb: number, threads: number }} Limits
 * @typedef {string | number | bigint | boolean | null | readonly string[]} Parameter
 * @typedef {{ sql: string, parameters: Readonly<Record<string, Parameter>>, views?: Readonly<Record<string, string>>, most: number }} Query
 * @typedef {{ columns: string[], rows: (string | null)[][], more: boolean } | { error: string }} Result
 */

/** Exit code for a package that is not installed. src/usage/query-process.ts knows it. */
const NOT_INSTALLED = 64;

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
  // Without a place for them, results that do not fit into memory are an error instead of files.
  temp_directory: '',
  autoinstall_known_extensions: 'false',
  autoload_known_extensions: 'false',
  allow_community_extensions: 'false',
});
const connection = await instance.connect();
for (const setting of [
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

/** @param {Query} query @returns {Promise<Result>} */
async function answer({ sql, parameters, views = {}, most }) {
  for (const [name, relation] of Object.entries(views)) {
    await connection.run(`CREATE OR REPLACE VIEW ${name} AS FROM ${relation}`);
  }
  const statement = await connection.prepare(sql);
  // COPY could write into the folder, and CREATE or SET would outlive the query.
  if (statement.statementType !== duckdb.StatementType.SELECT) {
    return { error: 'only a SELECT may be run' };
  }
  const names = Object.keys(parameters);
  if (names.length > 0) {
    statement.bind(Object.fromEntries(names.map((name) => [name, bindable(parameters[name] ?? null)])));
  }
  const reader = await statement.streamAndReadUntil(most + 1);
  const rows = reader.getRows().map((row) => row.map((value) => (value === null ? null : String(value))));
  return { columns: reader.columnNames(), rows: rows.slice(0, most), more: rows.length > most };
}

process.on('message', (/** @type {Query} */ query) => {
  void answer(query)
    .catch((error) => ({ error: error instanceof Error ? error.message : String(error) }))
    .then((result) => process.send?.(result));
});
// The service is gone, even if it was killed.
process.on('disconnect', () => process.exit(0));
