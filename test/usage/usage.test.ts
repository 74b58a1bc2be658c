import { RedisService } from '../../src/redis/index.js';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type Charge, publishCharges } from '../support/charge-files.js';
import {
  type Answer,
  expectRefusal,
  expectStatus,
  Holdfast,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';

let folder: string;
let holdfast: Holdfast;
let tenant: TestTenant;
let other: TestTenant;
let clocks: TestTenant;
let repaid: TestTenant;
let charges: Charge[];

const at = (text: string): number => Date.parse(text);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'usage-'));
  holdfast = await Holdfast.start({ ARCHIVE_DIR: join(folder, 'archive') });
  const reading = async (): Promise<TestTenant> => {
    const { id } = await holdfast.createTenant();
    return { id, key: await holdfast.createKey(id, { permissions: ['usage:read'] }) };
  };
  tenant = await reading();
  other = await reading();
  clocks = await reading();
  repaid = await reading();
  const of = ({ id }: TestTenant, below = ''): Pick<Charge, 'tenant' | 'scope'> => ({
    tenant: id,
    scope: `tenant:${id}${below}`,
  });
  charges = [
    {
      ...of(tenant, '/workspace:eng/agent:bot'),
      workspace: 'Eng',
      agent: 'bot',
      recorded_at: at('2026-03-28T23:30:00Z'),
      reserved: 100,
      charged: 80,
      action_kind: 'llm.completion',
      action_name: '=cmd|calc',
      dimensions: { team: 'search', 'a/b~c"\'': 'odd' },
      model_version: 'm-1',
      tokens_input: 10,
      tokens_output: 20,
      key_id: 'key_1',
      credits: { crd_a: 30, crd_b: 10 },
    },
    {
      ...of(tenant, '/workspace:eng'),
      workspace: 'eng',
      recorded_at: at('2026-03-29T00:30:00Z'),
      reserved: 50,
      charged: 0,
      state: 'RELEASED',
      action_kind: 'llm.completion',
      action_name: 'x',
    },
    {
      ...of(tenant, '/workspace:engineering'),
      workspace: 'engineering',
      recorded_at: at('2026-03-29T01:30:00Z'),
      record_id: 'rsv_expired',
      reserved: 40,
      charged: 5,
      state: 'EXPIRED',
      action_kind: 'tool.call',
      action_name: 'y',
    },
    {
      ...of(tenant),
      recorded_at: at('2026-10-25T00:30:00Z'),
      record_id: 'evt_debit',
      source: 'DIRECT_DEBIT',
      state: 'APPLIED',
      charged: 7,
      action_kind: 'tool.call',
      action_name: 'y',
    },
    {
      ...of(tenant),
      recorded_at: at('2026-10-25T01:30:00Z'),
      source: 'DIRECT_DEBIT',
      state: 'APPLIED',
      charged: 8,
      unit: 'CREDITS',
      action_kind: 'tool.call',
      action_name: 'y',
    },
    { ...of(tenant), recorded_at: at('2026-10-25T01:40:00Z'), source: 'CORRECTION', charged: 1000 },
    {
      ...of(other),
      recorded_at: at('2026-03-29T00:10:00Z'),
      reserved: 9223372036854775807n,
      charged: 9223372036854775807n,
    },
    { ...of(other), recorded_at: at('2026-03-29T00:20:00Z'), charged: 9223372036854775807n },
    {
      ...of(repaid),
      recorded_at: at('2026-02-01T01:00:00Z'),
      reserved: 12,
      charged: 10,
      unit: 'CREDITS',
      credits: { crd_c: 5 },
    },
    ...[3, 1].map((amount) => ({
      ...of(repaid),
      recorded_at: at('2026-02-02T01:00:00Z'),
      source: 'REFUND',
      state: 'REFUNDED',
      charged: -amount,
      unit: 'CREDITS',
      ...(amount === 3 && { credits: { crd_c: -3 } }),
    })),
    // Around the changes of daylight saving in Europe: 1 before, 2 in the instant, 4 after the first, then 8, 16, 32.
    ...[at('2026-03-29T01:00:00Z'), at('2026-10-25T01:00:00Z')].flatMap((change, index) =>
      [-1, 0, 1].map((ms, place) => ({
        ...of(clocks),
        recorded_at: change + ms,
        unit: 'RISK_POINTS',
        charged: 2 ** (3 * index + place),
      })),
    ),
  ];
  await publishCharges(join(folder, 'archive'), charges, holdfast.app.get(RedisService).deployment.id);
});

afterAll(async () => {
  await holdfast.stop();
  rmSync(folder, { recursive: true });
});

const SPAN = { from: '2026-01-01T00:00:00Z', to: '2027-01-01T00:00:00Z' };

const query = (parameters: Record<string, string>): string =>
  new URLSearchParams({ ...SPAN, ...parameters }).toString();

const ofTenant = (parameters: Record<string, string> = {}, key = tenant.key): Promise<Answer> =>
  holdfast.call('GET', `/v1/usage?${query(parameters)}`, { key });

async function rows(parameters: Record<string, string>, key = tenant.key): Promise<Json[]> {
  return expectStatus(await ofTenant(parameters, key), 200).rows as Json[];
}

/** Rows as texts of their keys, the unit and the charge. */
async function charged(parameters: Record<string, string>, ...keys: string[]): Promise<string[]> {
  const found = await rows({ ...(keys.length === 0 ? {} : { group_by: keys.join(',') }), ...parameters });
  return found.map((row) => [...keys.map((key) => row[key] ?? '-'), row.unit, row.charged].join(' '));
}

describe('a report of usage', () => {
  test('has sums of each unit, of the tenant alone, and counts corrections nowhere', async () => {
    const { rows: found, totals, has_more, gaps } = expectStatus(await ofTenant(), 200);
    const credits = {
      unit: 'CREDITS',
      charged: 8,
      reserved: 0,
      released: 0,
      expired: 0,
      count: 1,
      tokens_input: 0,
      tokens_output: 0,
      superseded: 0,
      superseded_count: 0,
      refunded: 0,
    };
    const tokens = {
      unit: 'TOKENS',
      charged: 92,
      reserved: 190,
      released: 50,
      expired: 35,
      count: 4,
      tokens_input: 10,
      tokens_output: 20,
      superseded: 0,
      superseded_count: 0,
      refunded: 0,
    };
    expect(found).toEqual([credits, tokens]);
    expect(totals).toEqual([credits, tokens]);
    expect([has_more, gaps]).toEqual([false, []]);
  });

  test('is net of refunds, which are no further charge', async () => {
    expect(await rows({}, repaid.key)).toMatchObject([
      { unit: 'CREDITS', charged: 6, refunded: 4, reserved: 12, count: 1 },
    ]);
    expect(await rows({ source: 'REFUND', group_by: 'day' }, repaid.key)).toMatchObject([
      { day: '2026-02-02', charged: -4, refunded: 4, reserved: 0, count: 0 },
    ]);
  });

  test('names what each credit paid, and nothing that no credit paid', async () => {
    expect(await charged({}, 'credit')).toEqual(['crd_a TOKENS 30', 'crd_b TOKENS 10']);
    expect(await rows({ group_by: 'day,credit' })).toMatchObject([
      { day: '2026-03-28', credit: 'crd_a', charged: 30 },
      { day: '2026-03-28', credit: 'crd_b', charged: 10 },
    ]);
    expect(await rows({ group_by: 'credit' }, repaid.key)).toMatchObject([
      { credit: 'crd_c', unit: 'CREDITS', charged: 2, reserved: 12, count: 1, refunded: 3 },
    ]);
  });

  test('counts in the metrics', async () => {
    const before = await holdfast.metric('holdfast_usage_queries_total', { outcome: 'OK' });
    const timed = await holdfast.metric('holdfast_usage_query_duration_seconds_count');
    await rows({});
    expect(await holdfast.metric('holdfast_usage_queries_total', { outcome: 'OK' })).toBe(before + 1);
    expect(await holdfast.metric('holdfast_usage_query_duration_seconds_count')).toBe(timed + 1);
  });

  test('begins at from and ends before to', async () => {
    const span = { from: '2026-03-29T00:30:00Z', to: '2026-03-29T01:30:00Z' };
    expect(await charged(span, 'action_name')).toEqual(['x TOKENS 0']);
    const ms = { from: String(at(span.to)), to: String(at(span.to) + 1) };
    expect(await charged(ms, 'action_name')).toEqual(['y TOKENS 5']);
  });

  test('has days, months and hours of the time zone, also across a change of daylight saving', async () => {
    expect(await charged({ unit: 'TOKENS' }, 'day')).toEqual([
      '2026-03-28 TOKENS 80',
      '2026-03-29 TOKENS 5',
      '2026-10-25 TOKENS 7',
    ]);
    expect(await charged({ unit: 'TOKENS', time_zone: 'Europe/Berlin' }, 'day')).toEqual([
      '2026-03-29 TOKENS 85',
      '2026-10-25 TOKENS 7',
    ]);
    expect(await charged({ time_zone: 'America/Los_Angeles' }, 'day')).toEqual([
      '2026-03-28 TOKENS 85',
      '2026-10-24 CREDITS 8',
      '2026-10-24 TOKENS 7',
    ]);
    // Half past two comes twice in October, and not at all in March.
    expect(await charged({ time_zone: 'Europe/Berlin' }, 'hour')).toEqual([
      '2026-03-29T00:00:00+01:00 TOKENS 80',
      '2026-03-29T01:00:00+01:00 TOKENS 0',
      '2026-03-29T03:00:00+02:00 TOKENS 5',
      '2026-10-25T02:00:00+02:00 TOKENS 7',
      '2026-10-25T02:00:00+01:00 CREDITS 8',
    ]);
    expect(await charged({ time_zone: 'Asia/Kathmandu' }, 'hour', 'month')).toContain(
      '2026-03-29T05:00:00+05:45 2026-03 TOKENS 80',
    );
    expect(await charged({}, 'month')).toEqual([
      '2026-03 TOKENS 85',
      '2026-10 CREDITS 8',
      '2026-10 TOKENS 7',
    ]);
  });

  test('counts a charge in the very instant of a change of daylight saving in the hour after it', async () => {
    const hours = await rows({ time_zone: 'Europe/Berlin', group_by: 'hour' }, clocks.key);
    expect(hours.map((row) => [row.hour, row.charged])).toEqual([
      ['2026-03-29T01:00:00+01:00', 1],
      ['2026-03-29T03:00:00+02:00', 2 + 4],
      ['2026-10-25T02:00:00+02:00', 8],
      ['2026-10-25T02:00:00+01:00', 16 + 32],
    ]);
  });

  test('has rows of scopes, cut at a depth', async () => {
    const root = `tenant:${tenant.id}`;
    expect(await charged({ unit: 'TOKENS' }, 'scope')).toEqual([
      `${root} TOKENS 7`,
      `${root}/workspace:eng TOKENS 0`,
      `${root}/workspace:eng/agent:bot TOKENS 80`,
      `${root}/workspace:engineering TOKENS 5`,
    ]);
    expect(await charged({ unit: 'TOKENS', scope_depth: '2' }, 'scope')).toEqual([
      `${root} TOKENS 7`,
      `${root}/workspace:eng TOKENS 80`,
      `${root}/workspace:engineering TOKENS 5`,
    ]);
  });

  test('has rows of whatever else a charge names, and none of a name that it lacks', async () => {
    expect(await charged({ unit: 'TOKENS' }, 'workspace', 'agent')).toEqual([
      'eng bot TOKENS 80',
      'eng - TOKENS 0',
      'engineering - TOKENS 5',
      '- - TOKENS 7',
    ]);
    expect(await charged({ unit: 'TOKENS' }, 'dimension:team')).toEqual(['search TOKENS 80', '- TOKENS 12']);
    expect(await charged({ unit: 'TOKENS' }, 'dimension:a/b~c"\'')).toEqual(['odd TOKENS 80', '- TOKENS 12']);
    expect(await charged({}, 'source')).toEqual([
      'DIRECT_DEBIT CREDITS 8',
      'DIRECT_DEBIT TOKENS 7',
      'RESERVATION TOKENS 85',
    ]);
    expect(await charged({ unit: 'TOKENS' }, 'model_version', 'key_id', 'action_kind', 'tenant')).toEqual([
      `m-1 key_1 llm.completion ${tenant.id} TOKENS 80`,
      `- - llm.completion ${tenant.id} TOKENS 0`,
      `- - tool.call ${tenant.id} TOKENS 12`,
    ]);
  });

  test('has only what each filter lets pass', async () => {
    const sum = async (parameters: Record<string, string>): Promise<string[]> => charged(parameters);
    expect(await sum({ scope: `tenant:${tenant.id}/workspace:ENG` })).toEqual(['TOKENS 80']);
    for (const filter of [
      { workspace: 'ENG' },
      { agent: 'bot' },
      { dimension: 'team=search' },
      { dimension: 'a/b~c"\'=odd' },
      { model_version: 'm-1' },
      { key_id: 'key_1' },
      { action_kind: 'llm.completion' },
      { action_name: '=cmd|calc' },
    ]) {
      expect({ filter, found: await sum(filter) }).toEqual({ filter, found: ['TOKENS 80'] });
    }
    expect(await sum({ source: 'DIRECT_DEBIT', unit: 'CREDITS' })).toEqual(['CREDITS 8']);
    expect(await sum({ agent: 'nobody' })).toEqual([]);
  });

  test('is ordered by a key or a figure, and limited, while totals are of everything', async () => {
    const largest = await ofTenant({ group_by: 'action_name', order: '-charged', limit: '2' });
    const body = expectStatus(largest, 200);
    expect(body.rows.map((row: Json) => [row.action_name, row.charged])).toEqual([
      ['=cmd|calc', 80],
      ['y', 12],
    ]);
    expect(body.has_more).toBe(true);
    expect(body.totals.map((row: Json) => row.charged)).toEqual([8, 92]);
    expect(await charged({ order: '-action_name', unit: 'TOKENS' }, 'action_name')).toEqual([
      'y TOKENS 12',
      'x TOKENS 0',
      '=cmd|calc TOKENS 80',
    ]);
    expectRefusal(await ofTenant({ order: 'rowid' }), 400, 'INVALID_REQUEST');
    // The forms that are only rows say it in a header.
    for (const format of ['csv', 'ndjson']) {
      const ask = (limit: string): Promise<string | null> =>
        fetch(`${holdfast.url}/v1/usage?${query({ group_by: 'action_name', limit, format })}`, {
          headers: { 'x-cycles-api-key': tenant.key },
        }).then((answer) => answer.headers.get('x-holdfast-has-more'));
      expect(await ask('2')).toBe('true');
      expect(await ask('1000')).toBe('false');
    }
  });

  test('is exact, and a text beyond 64 bits', async () => {
    const { rows: found } = expectStatus(await ofTenant({}, other.key), 200);
    expect(found).toEqual([
      expect.objectContaining({ charged: '18446744073709551614', reserved: 9223372036854775807n }),
    ]);
  });

  test('lists the charges themselves, the last first', async () => {
    const charges = await rows({
      group_by: 'recorded_at,record_id,action_name,source',
      order: '-recorded_at',
      unit: 'TOKENS',
      limit: '2',
    });
    expect(charges).toEqual([
      expect.objectContaining({
        recorded_at: '2026-10-25T00:30:00.000Z',
        record_id: 'evt_debit',
        action_name: 'y',
        source: 'DIRECT_DEBIT',
        charged: 7,
        count: 1,
      }),
      expect.objectContaining({
        recorded_at: '2026-03-29T01:30:00.000Z',
        record_id: 'rsv_expired',
        charged: 5,
        count: 1,
      }),
    ]);
  });

  test('is of all tenants for operators', async () => {
    const answer = await holdfast.admin('GET', `/ops/usage?${query({ group_by: 'tenant', unit: 'TOKENS' })}`);
    const found = expectStatus(answer, 200).rows as Json[];
    expect(found.map((row) => [row.tenant, String(row.charged)]).sort()).toEqual(
      [
        [tenant.id, '92'],
        [other.id, '18446744073709551614'],
      ].sort(),
    );
    const one = await holdfast.admin('GET', `/ops/usage?${query({ tenant_id: tenant.id.toUpperCase() })}`);
    expect(expectStatus(one, 200).totals.map((row: Json) => row.charged)).toEqual([8, 92]);
  });

  test.each(['exactly', 'by how it begins'])('is of the tenants of an operator, named %s', async (how) => {
    const name = `confined-${how.replaceAll(' ', '-')}`;
    const pattern = how === 'exactly' ? tenant.id : `${tenant.id.slice(0, -1)}*`;
    const body = { name, role: 'viewer', tenants: [pattern, 'of-nobody'] };
    const { key_secret: key } = expectStatus(await holdfast.admin('POST', '/ops/operators', body), 201);
    const ask = (more: Record<string, string>): Promise<Answer> =>
      holdfast.call('GET', `/ops/usage?${query(more)}`, { headers: { 'x-admin-api-key': key as string } });
    const { rows: found, totals } = expectStatus(await ask({ group_by: 'tenant', unit: 'TOKENS' }), 200);
    expect((found as Json[]).map((row) => [row.tenant, row.charged])).toEqual([[tenant.id, 92]]);
    expect((totals as Json[]).map((row) => row.charged)).toEqual([92]);
    const csv = (await ask({ group_by: 'tenant', format: 'csv' })).text;
    expect(csv).toContain(tenant.id);
    expect(csv).not.toContain(other.id);
    expectRefusal(await ask({ tenant_id: other.id }), 403, 'INSUFFICIENT_PERMISSIONS');
  });
});

describe('whoever asks', () => {
  test('is told of a parameter that does not exist, because an ignored filter would report too much', async () => {
    expect(expectRefusal(await ofTenant({ tenant: other.id }), 400, 'INVALID_REQUEST').details).toEqual({
      field: 'tenant',
    });
  });

  test('is told what it can be grouped by', async () => {
    const { message } = expectRefusal(await ofTenant({ group_by: 'user' }), 400, 'INVALID_REQUEST');
    expect(message).toContain('hour, day, month');
    expect(message).toContain('record_id or dimension:<name>');
    expectRefusal(await ofTenant({ group_by: 'day', scope_depth: '1' }), 400, 'INVALID_REQUEST');
  });

  test('needs the permission usage:read', async () => {
    const key = await holdfast.createKey(tenant.id, { permissions: ['balances:read'] });
    expectRefusal(await ofTenant({}, key), 403, 'FORBIDDEN');
  });

  test('sees no other tenant', async () => {
    expectRefusal(await ofTenant({ tenant_id: other.id }), 403, 'FORBIDDEN');
    expectRefusal(await ofTenant({ scope: `tenant:${other.id}` }), 400, 'INVALID_REQUEST');
  });

  test('sees only the part of the tenant that its key is confined to', async () => {
    const seen = async (...scope_filter: string[]): Promise<unknown[]> => {
      const key = await holdfast.createKey(tenant.id, { permissions: ['usage:read'], scope_filter });
      return (await rows({ group_by: 'scope' }, key)).map((row) => row.charged as unknown);
    };
    expect(await seen('workspace:eng')).toEqual([0, 80]);
    expect(await seen('workspace:eng', 'agent:bot')).toEqual([80]);
    expect(await seen('workspace:eng', 'workspace:engineering')).toEqual([0, 80, 5]);
    expect(await seen('workspace:eng/agent:bot')).toEqual([80]);
    expect(await seen('workspace:engineering/agent:bot')).toEqual([]);
    expect(await seen('workspace:*')).toHaveLength(5);
    expect(await seen('agent:nobody')).toEqual([]);
  });
});

describe('other forms', () => {
  test('are CSV without formulas, and NDJSON', async () => {
    const csv = await ofTenant({ format: 'csv', group_by: 'action_name', unit: 'TOKENS' });
    expect(csv.text.split('\r\n')).toEqual([
      'action_name,unit,charged,reserved,released,expired,count,tokens_input,tokens_output,superseded,superseded_count,refunded',
      "'=cmd|calc,TOKENS,80,100,0,0,1,10,20,0,0,0",
      'x,TOKENS,0,50,50,0,1,0,0,0,0,0',
      'y,TOKENS,12,40,0,35,2,0,0,0,0,0',
      '',
    ]);
    expect(csv.headers.get('content-type')).toContain('text/csv');
    expect(csv.headers.get('x-holdfast-gaps')).toBe('0');
    const ndjson = await fetch(`${holdfast.url}/v1/usage?${query({ group_by: 'source' })}`, {
      headers: { accept: 'application/x-ndjson', 'x-cycles-api-key': tenant.key },
    });
    const lines = (await ndjson.text())
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines.map(({ source, charged: sum }) => [source, sum])).toEqual([
      ['DIRECT_DEBIT', 8],
      ['DIRECT_DEBIT', 7],
      ['RESERVATION', 85],
    ]);
  });
});

describe('SQL', () => {
  const ATTACKS = [
    "' OR 1=1 --",
    "x'; DROP TABLE charges; --",
    "x') UNION ALL SELECT 1,'a',2,3,4,5,6,7,8 --",
    "$.a') FROM read_text('/etc/passwd') --",
    "\"; COPY (SELECT 1) TO '/tmp/x'; --",
    '$p1',
    "\\' OR '1'='1",
  ];

  test.each([
    'tenant_id',
    'scope',
    'unit',
    'workspace',
    'app',
    'workflow',
    'agent',
    'toolset',
    'action_kind',
    'action_name',
    'model_version',
    'key_id',
    'source',
    'dimension',
    'group_by',
    'scope_depth',
    'order',
    'limit',
    'time_zone',
    'from',
    'to',
    'format',
  ])('in %s is never run', async (parameter) => {
    for (const attack of ATTACKS) {
      for (const value of [attack, `dimension:${attack}`, `team=${attack}`, `-${attack}`]) {
        const answer = await ofTenant({ [parameter]: value });
        // Either no such parameter is allowed, or nothing has such a name.
        if (answer.status === 200) {
          const named = answer.body.rows.filter(
            (row: Json) => row.unit !== 'TOKENS' && row.unit !== 'CREDITS',
          );
          expect(named).toEqual([]);
          const isFilter = !['group_by', 'order'].includes(parameter);
          expect({ parameter, value, rows: isFilter ? answer.body.rows : [] }).toEqual({
            parameter,
            value,
            rows: [],
          });
          expect(Object.keys(answer.body.rows[0] ?? {})).not.toContain('root');
        } else {
          expect(answer.status === 400 || answer.status === 403).toBe(true);
        }
      }
    }
    expect(await charged({})).toEqual(['CREDITS 8', 'TOKENS 92']);
  });
});
