import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { daysFromTo } from '../../src/archive/archive-folder.js';
import { CHARGE_COLUMNS } from '../../src/archive/index.js';

type Column = (typeof CHARGE_COLUMNS)[number]['name'];
/** Instants are in ms. */
export type Charge = Partial<Record<Column, string | number | bigint | object>> & {
  readonly recorded_at: number;
};

const DEFAULTS: Partial<Record<Column, string | number>> = {
  partition: 0,
  source: 'RESERVATION',
  state: 'COMMITTED',
  tenant: 'acme',
  scope: 'tenant:acme',
  scope_mask: '1',
  unit: 'TOKENS',
  reserved: 0,
  charged: 0,
  debt: 0,
};

/** 0.7 wrote instants as local times of UTC. Readers must take both, so every other day is as it wrote them. */
const isOfBefore = (day: string): boolean => Number(day.slice(-2)) % 2 === 1;

/** Made-up charges as the archive has them: each UTC day from the first to the last published, with its manifest. Days without charges have no file. */
export async function publishCharges(
  root: string,
  charges: readonly Charge[],
  deployment = 'made-up',
): Promise<string[]> {
  beginArchive(root, deployment);
  const days = new Map<string, Charge[]>();
  for (const charge of charges) {
    const day = new Date(charge.recorded_at).toISOString().slice(0, 10);
    days.set(day, [...(days.get(day) ?? []), charge]);
  }
  const files: string[] = [];
  for (const day of daysFromTo([...days.keys()].sort())) {
    const folder = join(root, 'published', `day=${day}`);
    mkdirSync(folder, { recursive: true });
    const rows = days.get(day);
    if (rows === undefined) {
      writeFileSync(join(folder, 'manifest.json'), manifestText(day, {}));
      continue;
    }
    files.push(await writeCharges(join(folder, 'charges.parquet'), rows, isOfBefore(day)));
    describeCharges(folder, day, rows.length);
  }
  return files;
}

/**
 * One published day of many charges, which DuckDB makes up.
 * @param columns SQL over `i`, which is 0 in the first row. The rest is as usual
 */
export async function publishManyCharges(
  root: string,
  { day, rows, columns }: { day: string; rows: number; columns: Partial<Record<Column, string>> },
  deployment = 'made-up',
): Promise<void> {
  beginArchive(root, deployment);
  const folder = join(root, 'published', `day=${day}`);
  mkdirSync(folder, { recursive: true });
  const texts = Object.entries(DEFAULTS).map(([name, value]) => [name, `'${value}'`] as const);
  const values: Partial<Record<Column, string>> = {
    ...Object.fromEntries(texts),
    recorded_at: `TIMESTAMPTZ '${day} 12:00:00+00'`,
    ...columns,
  };
  const selected = CHARGE_COLUMNS.map(
    ({ name, type }) =>
      `CAST(${values[name] ?? 'NULL'} AS ${type === 'TIMESTAMP' ? 'TIMESTAMPTZ' : type}) AS "${name}"`,
  );
  const instance = await DuckDBInstance.create(':memory:', { threads: '1' });
  const connection = await instance.connect();
  await connection.run(
    `COPY (SELECT ${selected.join(', ')} FROM range(${rows}) AS made_up(i)) TO '${join(folder, 'charges.parquet')}' (FORMAT parquet, COMPRESSION zstd)`,
  );
  connection.closeSync();
  instance.closeSync();
  describeCharges(folder, day, rows);
}

function beginArchive(root: string, deployment: string): void {
  mkdirSync(root, { recursive: true });
  const epochs = [{ deployment_id: deployment, began_ms: 0 }];
  writeFileSync(join(root, 'archive.json'), JSON.stringify({ id: 'made-up', epochs }));
}

function describeCharges(folder: string, day: string, rows: number): void {
  const content = readFileSync(join(folder, 'charges.parquet'));
  const sha256 = createHash('sha256').update(content).digest('hex');
  const charges = { rows, bytes: content.length, sha256, ends: {}, gaps: [] };
  writeFileSync(join(folder, 'manifest.json'), manifestText(day, { charges }));
}

const manifestText = (day: string, files: object): string =>
  JSON.stringify({ archive_id: 'made-up', day, files });

async function writeCharges(file: string, charges: readonly Charge[], isBefore: boolean): Promise<string> {
  const instance = await DuckDBInstance.create(':memory:', { threads: '1' });
  const connection = await instance.connect();
  const names = CHARGE_COLUMNS.map(({ name }) => name);
  const instant = isBefore ? 'TIMESTAMP' : 'TIMESTAMPTZ';
  const table = CHARGE_COLUMNS.map(
    ({ name, type }) => `"${name}" ${type === 'TIMESTAMP' ? instant : type}`,
  ).join(', ');
  await connection.run("SET TimeZone = 'UTC'");
  await connection.run(`CREATE OR REPLACE TABLE charges (${table})`);
  const columns = CHARGE_COLUMNS.map(({ name, type }) =>
    type === 'TIMESTAMP' ? `make_timestamp($${name}::BIGINT * 1000)` : `$${name}::${type}`,
  );
  const insert = await connection.prepare(`INSERT INTO charges VALUES (${columns.join(', ')})`);
  for (const charge of charges) {
    const row: Partial<Charge> = { ...DEFAULTS, ...charge };
    insert.bind(Object.fromEntries(names.map((name) => [name, textOf(row[name])])));
    await insert.run();
  }
  await connection.run(
    `COPY (FROM charges ORDER BY tenant, recorded_at) TO '${file.replaceAll("'", "''")}' (FORMAT parquet, COMPRESSION zstd)`,
  );
  connection.closeSync();
  instance.closeSync();
  return file;
}

function textOf(value: Charge[Column]): string | null {
  if (value === undefined) {
    return null;
  }
  return typeof value === 'object' ? JSON.stringify(value) : value.toString();
}
