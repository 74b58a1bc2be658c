import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { indexOfValue } from '../../src/audit/audit-log/audit-log-rows.js';
import { auditIndexKey, auditLogKey, briefAuditLogKey, requestLogKey } from '../../src/redis/keyspace.js';
import type { ScriptRegistry } from '../../src/redis/scripts.js';
import { CheckedScripts } from '../support/checked-scripts.js';
import { connectTo, startStore, type Store, type StoreClient } from '../support/store.js';

const DAY_MS = 86_400_000;
let server: Store;
let redis: StoreClient;
let scripts: ScriptRegistry;
let partition = 0;

beforeAll(async () => {
  server = await startStore();
  redis = connectTo(server.url);
  scripts = new CheckedScripts(redis);
});

afterAll(async () => {
  await redis.quit();
  await server.stop();
});

/** The tag of a partition that no other test has used. */
function freshTag(): string {
  partition += 1;
  return `{p${partition.toString(16).padStart(2, '0')}}`;
}

const LOGS = { audit: auditLogKey, 'audit-brief': briefAuditLogKey, refused: requestLogKey };

type Fields = Readonly<Record<string, string>>;

async function append(
  tag: string,
  log: keyof typeof LOGS,
  rows: readonly Fields[],
  most = 0,
  mostATenant = 0,
): Promise<string[]> {
  const replies: string[][] = [];
  for (let from = 0; from < rows.length; from += 50) {
    const texts = rows
      .slice(from, from + 50)
      .flatMap((row) => [Object.keys(row).length * 2, ...Object.entries(row).flat()]);
    replies.push(
      await scripts.run('append_audit_rows', [LOGS[log](tag)], [log, most, mostATenant, ...texts]),
    );
  }
  return replies.at(-1) as string[];
}

const row = (tenant: string, request: string, more: Fields = {}): Fields => ({
  op: 'listBudgets',
  tn: tenant,
  ac: 'api_key',
  ri: 'thing',
  st: '200',
  rq: request,
  tr: `${'a'.repeat(32)}-01`,
  ...more,
});

async function list(
  tag: string,
  index: { name: string; digest: string } | undefined,
  ...conditions: string[]
): Promise<{ examined: number; rows: number; next: string }> {
  const key = auditLogKey(tag);
  const walked = index === undefined ? key : auditIndexKey(tag, 'audit', index.name);
  const [next = '', examined, ...reply] = await scripts.run(
    'list_audit_log',
    [key, walked],
    ['desc', '+', '-', 250, 100, 262_144, index?.digest ?? '', ...conditions],
  );
  let rows = 0;
  for (let at = 0; at < reply.length; at += 2 + Number(reply[at + 1])) {
    rows += 1;
  }
  return { examined: Number(examined), rows, next };
}

/** The number of entries in all indexes of a log. */
async function indexed(tag: string, log: keyof typeof LOGS): Promise<number> {
  const keys = await redis.keys(`${auditIndexKey(tag, log, '')}*`);
  return (await Promise.all(keys.map((key) => redis.zcard(key)))).reduce((sum, count) => sum + count, 0);
}

test('rows of one instant are read in order, in both directions, from after any of them', async () => {
  const tag = freshTag();
  const { name, digest } = indexOfValue('r', 'thing');
  for (let sequence = 0; sequence < 12; sequence += 1) {
    await redis.xadd(
      auditLogKey(tag),
      `1800000000000-${sequence}`,
      ...Object.entries(row('acme', `req_${sequence}`)).flat(),
    );
    await redis.zadd(
      auditIndexKey(tag, 'audit', name),
      0,
      `${digest}001800000000000-${String(sequence).padStart(6, '0')}`,
    );
  }
  const idsFrom = async (direction: string, start: string, stop: string): Promise<string[]> => {
    const reply = await scripts.run(
      'list_audit_log',
      [auditLogKey(tag), auditIndexKey(tag, 'audit', name)],
      [direction, start, stop, 250, 100, 262_144, digest],
    );
    return reply.filter((text) => /^1800000000000-/.test(text)).map((id) => id.split('-')[1] as string);
  };
  const all = Array.from({ length: 12 }, (_, sequence) => String(sequence));
  expect(await idsFrom('asc', '-', '+')).toEqual(all);
  expect(await idsFrom('desc', '+', '-')).toEqual([...all].reverse());
  expect(await idsFrom('asc', '1800000000000', '1800000000000')).toEqual(all);
  expect(await idsFrom('desc', '1800000000000', '1800000000000')).toEqual([...all].reverse());
  expect(await idsFrom('asc', '(1800000000000-8', '+')).toEqual(['9', '10', '11']);
  expect(await idsFrom('desc', '(1800000000000-10', '1799999999999')).toEqual([...all].reverse().slice(2));
  expect(await idsFrom('desc', '1799999999999', '-')).toEqual([]);
});

test('the rows of a tenant and of a request are found without reading those of others', async () => {
  const tag = freshTag();
  await append(
    tag,
    'audit',
    Array.from({ length: 3000 }, (_, index) => row(`other-${index % 50}`, `req_${index}`)),
  );
  await append(tag, 'audit', [row('acme', 'req_mine'), row('acme', 'req_other')]);
  expect(await list(tag, indexOfValue('t', 'acme'))).toEqual({ examined: 2, rows: 2, next: '' });
  expect(await list(tag, indexOfValue('q', 'req_mine'), 'rq', 'req_mine')).toEqual({
    examined: 1,
    rows: 1,
    next: '',
  });
  expect(await list(tag, indexOfValue('q', 'req_none'), 'rq', 'req_none')).toEqual({
    examined: 0,
    rows: 0,
    next: '',
  });
  expect((await list(tag, indexOfValue('x', 'a'.repeat(32)), 'tr', 'a'.repeat(32))).rows).toBe(100);
});

test('a run ends at its limit of entries or bytes, and returns where to continue', async () => {
  const tag = freshTag();
  await append(
    tag,
    'audit',
    Array.from({ length: 300 }, (_, index) => row('acme', `req_${index}`)),
  );
  expect(await list(tag, undefined, 'op', 'none')).toMatchObject({
    examined: 250,
    rows: 0,
    next: expect.stringMatching(/^\(\d+-\d+$/),
  });
  await append(
    tag,
    'audit',
    Array.from({ length: 10 }, (_, index) =>
      row('acme', `req_big_${index}`, { metadata: 'x'.repeat(100_000) }),
    ),
  );
  expect(await list(tag, undefined)).toMatchObject({ examined: 3, rows: 3 });
});

test('conditions accept one of several values, and a range of statuses', async () => {
  const tag = freshTag();
  await append(
    tag,
    'audit',
    ['200', '400', '404', '503'].map((st) =>
      row('acme', `req_${st}`, { st, ...(st === '200' ? {} : { ec: `CODE_${st}` }) }),
    ),
  );
  expect((await list(tag, undefined, 'ec', 'CODE_400', 'ec', 'CODE_503')).rows).toBe(2);
  expect((await list(tag, undefined, 'min_status', '400', 'max_status', '499')).rows).toBe(2);
  expect((await list(tag, undefined, 'min_status', '400', 'ec', 'CODE_200')).rows).toBe(0);
});

test('a full log loses its oldest rows, and so do the indexes', async () => {
  const tag = freshTag();
  await append(
    tag,
    'audit-brief',
    Array.from({ length: 20 }, (_, index) => row(`t-${index}`, `req_${index}`)),
    10,
  );
  expect(await append(tag, 'audit-brief', [row('last', 'req_last')], 10)).toEqual(['APPENDED', '1', '1']);
  expect(await redis.xlen(briefAuditLogKey(tag))).toBe(10);
  expect(await indexed(tag, 'audit-brief')).toBe(40);
});

test('a tenant with too many rows loses its oldest ones, and no other tenant does', async () => {
  const tag = freshTag();
  await append(tag, 'refused', [row('quiet', 'req_quiet')], 0, 3);
  const noisy = Array.from({ length: 60 }, (_, index) => row('noisy', `req_${index}`));
  expect(await append(tag, 'refused', noisy, 0, 3)).toEqual(['APPENDED', '10', '10']);
  const rows = await redis.xrange(requestLogKey(tag), '-', '+');
  expect(rows.map(([, fields]) => fields[fields.indexOf('rq') + 1])).toEqual([
    'req_quiet',
    'req_57',
    'req_58',
    'req_59',
  ]);
  expect(await indexed(tag, 'refused')).toBe(16);
  await redis.xtrim(requestLogKey(tag), 'MAXLEN', 0);
  expect(await append(tag, 'refused', [row('noisy', 'req_last')], 0, 3)).toEqual(['APPENDED', '1', '1']);
});

test('rows are removed after their retention, from the indexes too', async () => {
  const tag = freshTag();
  const [seconds] = await redis.time();
  for (const age of [32, 31, 29]) {
    const ms = Number(seconds) * 1000 - age * DAY_MS;
    await redis.xadd(briefAuditLogKey(tag), `${ms}-0`, ...Object.entries(row('acme', 'req_old')).flat());
    const { name, digest } = indexOfValue('t', 'acme');
    await redis.zadd(auditIndexKey(tag, 'audit-brief', name), 0, `${digest}00${ms}-000000`);
  }
  expect(
    await scripts.run('trim_audit_log', [briefAuditLogKey(tag)], ['audit-brief', 30 * DAY_MS, 1]),
  ).toEqual(['TRIMMED', '1', '1']);
  expect(
    await scripts.run('trim_audit_log', [briefAuditLogKey(tag)], ['audit-brief', 30 * DAY_MS, 10]),
  ).toEqual(['TRIMMED', '1', '0']);
  expect([await redis.xlen(briefAuditLogKey(tag)), await indexed(tag, 'audit-brief')]).toEqual([1, 1]);
});

test('a row is only missing from a damaged index', async () => {
  const tag = freshTag();
  await redis.set(auditIndexKey(tag, 'audit', indexOfValue('t', 'acme').name), 'not a sorted set');
  expect(await append(tag, 'audit', [row('acme', 'req_1')])).toEqual(['APPENDED', '1', '0']);
  expect((await list(tag, indexOfValue('q', 'req_1'), 'rq', 'req_1')).rows).toBe(1);
});

test('a log that is not a stream accepts nothing', async () => {
  const tag = freshTag();
  await redis.set(auditLogKey(tag), 'no stream');
  await expect(append(tag, 'audit', [row('acme', 'req_1')])).rejects.toThrow('WRONGTYPE');
  expect(await redis.keys(`${tag}*`)).toEqual([auditLogKey(tag)]);
});
