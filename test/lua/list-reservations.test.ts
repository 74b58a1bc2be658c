import { describe, expect, test } from '@jest/globals';
import { treeOrder } from '../../src/ledger/scopes.js';
import {
  journalKey,
  idempotencyKey,
  quarantineKey,
  reservationIndexKey,
  ttlIndexKey,
} from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { takeSubjectApart } from '../support/hold-record.js';
import type { LedgerClient, ReserveOptions } from '../support/ledger-client.js';
import { assertInvariants, readLedger, snapshot } from '../support/ledger-state.js';
import { commandsOf } from '../support/script-commands.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const RETENTION_MS = 1_000_000;

interface Run {
  readonly walked: readonly [ms: string, id: string];
  readonly outcomes: string[][];
  readonly unreadable: string[][];
  readonly rows: Record<string, string>[];
  readonly ids: string[];
}

interface Question {
  readonly dir?: 'asc' | 'desc';
  readonly from?: number | string;
  readonly to?: number | string;
  readonly after?: readonly [ms: string, id: string];
  readonly examine?: number;
  readonly limit?: number;
  readonly where?: Record<string, string | number>;
  readonly tenant?: string;
}

async function list(ledger: LedgerClient, question: Question = {}): Promise<Run> {
  const {
    dir = 'desc',
    from = '-inf',
    to = '+inf',
    after = ['', ''],
    examine = 100,
    limit = 100,
    where = {},
    tenant = ledger.tenant,
  } = question;
  const reply = await ledger.scripts.call(
    'list_reservations',
    { reservationIndex: reservationIndexKey(ledger.tag, tenant) },
    {
      tenantId: tenant,
      walkDir: dir,
      fromMs: from,
      toMs: to,
      walkedMs: after[0],
      walkedId: after[1],
      examine,
      limit,
      retentionMs: RETENTION_MS,
      requestId: 'req_list',
      trace: 't-01',
      rest: Object.entries(where).flat(),
    },
  );
  const rows = reply.rows.map((row) => ({ ...row }));
  return {
    walked: [reply.walkedMs ?? '', reply.walkedId ?? ''],
    outcomes: reply.outcomes.map(({ word, detail = '', secondDetail = '' }) => [word, detail, secondDetail]),
    unreadable: reply.unreadable.map(({ reservationId, reason }) => [reservationId, reason]),
    rows,
    ids: rows.map(({ id }) => id),
  };
}

/** Creates holds at these times, oldest first; those of the same time in the order of their ids. */
async function holdsAt(
  ledger: LedgerClient,
  times: readonly number[],
  options: ReserveOptions = {},
): Promise<string[]> {
  const ids: string[] = [];
  for (const time of times) {
    const { id } = await ledger.hold({ amount: 1, ...options });
    await createdAt(ledger, id, time);
    ids.push(id);
  }
  const place = new Map(ids.map((id, index) => [id, times[index] as number]));
  return ids.sort((a, b) => (place.get(a) as number) - (place.get(b) as number) || (a < b ? -1 : 1));
}

async function createdAt(ledger: LedgerClient, id: string, time: number): Promise<void> {
  await ledger.redis.hset(ledger.reservationKeyOf(id), 'ca', time);
  await ledger.redis.zadd(reservationIndexKey(ledger.tag, ledger.tenant), time, id);
}

async function budgeted(): Promise<LedgerClient> {
  const ledger = await newLedger();
  await ledger.makeBudget();
  return ledger;
}

/** Newest first; those with the same time still in the order of their ids. */
function newestFirst(ids: readonly string[], times: readonly number[]): string[] {
  const order = [...times].sort((a, b) => a - b);
  return ids
    .map((id, index) => ({ id, time: order[index] as number }))
    .sort((a, b) => b.time - a.time || (a.id < b.id ? -1 : 1))
    .map(({ id }) => id);
}

describe('the index of a tenant', () => {
  test('holds each reservation from its reserve on, scored by its creation, and nothing of a dry or refused one', async () => {
    const ledger = await budgeted();
    const { id } = await ledger.hold();
    await ledger.reserve({ dryRun: true });
    await ledger.reserve({ amount: 100_000 });
    await ledger.commit(id, 1);
    const index = await ledger.redis.zrange(
      reservationIndexKey(ledger.tag, ledger.tenant),
      '0',
      '-1',
      'WITHSCORES',
    );
    expect(index).toEqual([id, (await ledger.record(id))['ca']]);
  });

  test('is read from any position in both directions, in runs of any size, without gaps or repetitions', async () => {
    const ledger = await budgeted();
    const times = [10, 20, 20, 20, 20, 20, 20, 30, 40, 40, 40, 50];
    const ids = await holdsAt(ledger, times);
    for (const [dir, expected] of [
      ['asc', ids],
      ['desc', newestFirst(ids, times)],
    ] as const) {
      for (const examine of [1, 2, 3, 5, 12, 13]) {
        const found: string[] = [];
        let after: readonly [string, string] = ['', ''];
        do {
          const run: Run = await list(ledger, { dir, after, examine });
          found.push(...run.ids);
          after = run.walked;
        } while (after[0] !== '');
        expect([examine, found]).toEqual([examine, expected]);
      }
      const half = await list(ledger, { dir, limit: 5 });
      const rest = await list(ledger, { dir, after: half.walked });
      expect([...half.ids, ...rest.ids]).toEqual(expected);
    }
  });

  test('continues from a position whose entry is gone', async () => {
    const ledger = await budgeted();
    const times = [10, 20, 20, 20, 30];
    const ids = await holdsAt(ledger, times);
    for (const dir of ['asc', 'desc'] as const) {
      const expected = dir === 'asc' ? [ids[3], ids[4]] : [ids[3], ids[0]];
      expect((await list(ledger, { dir, after: ['20', ids[2] as string] })).ids).toEqual(expected);
      expect((await list(ledger, { dir, after: ['20', `${ids[2]}x`] })).ids).toEqual(expected);
    }
  });

  test('is limited to a window of creation times that includes both ends, on every page', async () => {
    const ledger = await budgeted();
    const times = [10, 20, 20, 30, 40];
    const ids = await holdsAt(ledger, times);
    const within = { from: 20, to: 30 };
    expect((await list(ledger, { dir: 'asc', ...within })).ids).toEqual(ids.slice(1, 4));
    expect((await list(ledger, { dir: 'desc', ...within })).ids).toEqual([ids[3], ids[1], ids[2]]);
    expect((await list(ledger, { dir: 'asc', ...within, after: ['20', ids[1] as string] })).ids).toEqual([
      ids[2],
      ids[3],
    ]);
    expect((await list(ledger, { dir: 'desc', ...within, after: ['20', ids[1] as string] })).ids).toEqual([
      ids[2],
    ]);
    expect((await list(ledger, { from: 31, to: 39 })).ids).toEqual([]);
  });

  test('loses the entries whose record is gone', async () => {
    const ledger = await budgeted();
    const ids = await holdsAt(ledger, [10, 20, 30]);
    await ledger.redis.del(ledger.reservationKeyOf(ids[1] as string));
    expect((await list(ledger)).ids).toEqual([ids[2], ids[0]]);
    expect(await ledger.redis.zrange(reservationIndexKey(ledger.tag, ledger.tenant), '0', '-1')).toEqual([
      ids[0],
      ids[2],
    ]);
  });
});

describe('a row', () => {
  test('holds the record without its metadata, and reading it changes nothing', async () => {
    const ledger = await budgeted();
    const subject = { workspace: 'Prod', agent: 'Bot' };
    const { id } = await ledger.hold({ subject, fields: { dm: '{"a":"b"}', at: '["t"]', md: '{"big":1}' } });
    await ledger.commit(id, 3, { metadata: '{"m":2}' });
    const before = await snapshot(ledger);
    const { rows } = await list(ledger);
    const {
      md: _,
      cm: __,
      bm: ___,
      op: ____,
      gr: _____,
      mx: ______,
      ki: _______,
      eb: ________,
      ...kept
    } = await ledger.record(id);
    expect(rows).toEqual([{ id, ...kept }]);
    expect(rows[0]).toMatchObject({ ch: '3', dm: '{"a":"b"}', at: '["t"]', ws: 'Prod' });
    expect(await snapshot(ledger)).toEqual(before);
  });

  test('must satisfy every condition', async () => {
    shows('listReservations');
    const ledger = await budgeted();
    const subject = { workspace: 'Prod', app: 'a', workflow: 'w', agent: 'Bot', toolset: 't' };
    const { id } = await ledger.hold({ subject, key: 'mine' });
    await ledger.setExpiry(id, 9_000_000_000_000);
    await ledger.hold();
    const levels = { workspace: 'prod', app: 'a', workflow: 'w', agent: 'bot', toolset: 't' };
    const where = {
      status: 'ACTIVE',
      expires_from: 9_000_000_000_000,
      expires_to: 9_000_000_000_000,
      ...levels,
    };
    expect((await list(ledger, { where })).ids).toEqual([id]);
    const wrong = {
      status: 'COMMITTED',
      expires_from: 9_000_000_000_001,
      expires_to: 8_999_999_999_999,
      agent: 'bo',
      toolset: 'x',
      finalized_from: 1,
      finalized_to: 1,
    };
    for (const [name, value] of Object.entries(wrong)) {
      expect([name, (await list(ledger, { where: { ...where, [name]: value } })).ids]).toEqual([name, []]);
    }
  });

  test('has an end to compare only when it was committed or released', async () => {
    const ledger = await budgeted();
    const [committed, released, expired, active] = [
      await ledger.hold(),
      await ledger.hold(),
      await ledger.hold(),
      await ledger.hold(),
    ];
    await ledger.commit(committed.id, 1);
    await ledger.release(released.id);
    await ledger.makeOverdue(expired.id);
    await ledger.expire(expired.id);
    const ended = Number((await ledger.record(committed.id))['fa']);
    const all = await list(ledger, { where: { finalized_from: ended } });
    expect(all.ids.sort()).toEqual([committed.id, released.id].sort());
    expect((await list(ledger, { where: { finalized_to: ended - 1 } })).ids).toEqual([]);
    expect((await list(ledger)).ids).toContain(active.id);
  });

  test.each([
    ['a text', 'a key | with anything'],
    ['a UUID', '0190a5a2-8f3a-7b1c-9d4e-5f60718293ff'],
  ])('is found by %s as the key of its reserve, even if the idempotency record is gone', async (_, key) => {
    const ledger = await budgeted();
    const ids = await holdsAt(ledger, [10, 20, 30], {});
    const { id } = await ledger.hold({ key });
    await createdAt(ledger, id, 5);
    const where = { idempotency_key: key };
    expect(await list(ledger, { where, examine: 1 })).toMatchObject({ ids: [id], walked: ['', ''] });
    expect((await list(ledger, { where, from: 6 })).ids).toEqual([]);
    expect((await list(ledger, { where: { ...where, status: 'COMMITTED' } })).ids).toEqual([]);
    await ledger.redis.del(idempotencyKey.reserve(ledger.tag, ledger.tenant, where.idempotency_key));
    expect((await list(ledger, { where, examine: 1 })).walked).toEqual(['30', ids[2]]);
    expect((await list(ledger, { where })).ids).toEqual([id]);
    await ledger.reserve({ key: 'dry', dryRun: true });
    expect((await list(ledger, { where: { idempotency_key: 'dry' } })).ids).toEqual([]);
  });
});

describe('for another order', () => {
  const between = (
    after: readonly [string, string] | undefined,
    before: readonly [string, string] | undefined,
  ): Record<string, string> => ({
    ...(after === undefined ? {} : { after_value: after[0], after_id: after[1] }),
    ...(before === undefined ? {} : { before_value: before[0], before_id: before[1] }),
  });

  async function inOrder(
    ledger: LedgerClient,
    by: string,
    dir: string,
    values: readonly (readonly [string, string])[],
  ): Promise<void> {
    for (const [index, place] of values.entries()) {
      for (const other of values.slice(index + 1)) {
        const where = { sort_by: by, sort_dir: dir, ...between(place, other) };
        const found = (await list(ledger, { where })).ids.sort();
        const last = values.indexOf(other);
        expect([by, dir, index, last, found]).toEqual([
          by,
          dir,
          index,
          last,
          values
            .slice(index + 1, last)
            .map(([, id]) => id)
            .sort(),
        ]);
      }
    }
  }

  test('only the rows between two places are returned, for each key and both directions, ties by ascending id', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: '9223372036854775807' });
    const made: Record<'reserved' | 'expires_at_ms' | 'scope_path' | 'status', string>[] = [];
    const ids: string[] = [];
    const amounts = ['9007199254740993', '9007199254740992', '9', '10', '10', '0'];
    for (const [index, amount] of amounts.entries()) {
      const agent = ['Z', 'b', 'B', 'a_', 'a-1', 'a'][index] as string;
      // In the order by segments, what is below `a` comes before `a-1`; by bytes it would come after.
      const subject = agent === 'a' ? { agent, toolset: 't' } : { agent };
      const { id } = await ledger.hold({ amount, subject });
      if (index === 2 || index === 4) {
        await ledger.release(id);
      }
      const expiresAt = 2_000_000_000_000 + (index % 3);
      await ledger.redis.hset(ledger.reservationKeyOf(id), 'ex', expiresAt);
      ids.push(id);
      made.push({
        reserved: amount,
        expires_at_ms: String(expiresAt),
        scope_path: treeOrder(ledger.scope(subject)),
        status: index === 2 || index === 4 ? 'RELEASED' : 'ACTIVE',
      });
    }
    const places = (
      value: (index: number) => string,
      less: (a: string, b: string) => boolean,
      dir: string,
    ): [string, string][] =>
      ids
        .map((id, index): [string, string] => [value(index), id])
        .sort(([a, x], [b, y]) => {
          if (a !== b) {
            return less(a, b) === (dir === 'asc') ? -1 : 1;
          }
          return x < y ? -1 : 1;
        });
    const byNumber = (a: string, b: string): boolean => BigInt(a) < BigInt(b);
    const byText = (a: string, b: string): boolean => a < b;
    for (const dir of ['asc', 'desc']) {
      for (const key of ['reserved', 'expires_at_ms'] as const) {
        await inOrder(
          ledger,
          key,
          dir,
          places((index) => made[index]?.[key] as string, byNumber, dir),
        );
      }
      for (const key of ['scope_path', 'status'] as const) {
        await inOrder(
          ledger,
          key,
          dir,
          places((index) => made[index]?.[key] as string, byText, dir),
        );
      }
      await inOrder(
        ledger,
        'reservation_id',
        dir,
        places((index) => ids[index] as string, byText, dir),
      );
      await inOrder(
        ledger,
        'tenant',
        dir,
        places(() => '', byText, dir),
      );
    }
  });
});

describe('an overdue reservation', () => {
  test.each([
    ['in one field', false],
    ['in separate fields', true],
  ])('is expired by the list, once, and shown as expired, its subject %s', async (_, apart) => {
    const ledger = await budgeted();
    const { id } = await ledger.hold({ amount: 100 });
    const deadline = await ledger.makeOverdue(id);
    if (apart) {
      await takeSubjectApart(ledger.redis, ledger.reservationKeyOf(id));
    }
    const first = await list(ledger);
    expect(first.outcomes).toEqual([['EXPIRED', ledger.tenant, String(deadline)]]);
    expect(first.rows).toMatchObject([{ id, st: 'EXPIRED' }]);
    expect(await ledger.figures()).toBe('1000,0,0,1000,0,0,0');
    const { events } = await assertInvariants(ledger);
    expect(events.map(({ fields }) => `${fields['ty']} ${fields['rq']}`)).toEqual([
      'reservation.expired req_list',
    ]);
    const before = await snapshot(ledger);
    expect(await list(ledger)).toMatchObject({ outcomes: [], ids: [id] });
    expect(await snapshot(ledger)).toEqual(before);
  });

  test('includes the extensions that it had', async () => {
    const ledger = await budgeted();
    const { id } = await ledger.hold();
    await ledger.extend(id, 1000);
    await ledger.makeOverdue(id);
    await list(ledger);
    const { events } = await assertInvariants(ledger);
    expect(events.map(({ fields }) => fields['extensions_used'])).toEqual(['1']);
  });

  test('does not count as ACTIVE, but one in its grace does', async () => {
    const ledger = await budgeted();
    const [overdue, waiting] = [await ledger.hold(), await ledger.hold()];
    await ledger.makeOverdue(overdue.id);
    await ledger.putInGrace(waiting.id);
    expect((await list(ledger, { where: { status: 'ACTIVE' } })).ids).toEqual([waiting.id]);
    expect((await list(ledger, { where: { status: 'EXPIRED' } })).ids).toEqual([overdue.id]);
  });

  test('that cannot be refunded is quarantined and shown as it is, and not examined again', async () => {
    const ledger = await budgeted();
    const { id } = await ledger.hold();
    await ledger.makeOverdue(id);
    await ledger.redis.del(ledger.budgetKeyOf());
    expect(await list(ledger)).toMatchObject({
      outcomes: [['QUARANTINED', 'MISSING_BUDGET', ledger.tenant]],
      rows: [{ id, st: 'ACTIVE' }],
    });
    const before = await snapshot(ledger);
    expect(await list(ledger)).toMatchObject({ outcomes: [], ids: [id] });
    expect(await snapshot(ledger)).toEqual(before);
    expect(await ledger.redis.hlen(quarantineKey(ledger.tag))).toBe(1);
    expect(await ledger.redis.zcard(ttlIndexKey(ledger.tag))).toBe(0);
  });
});

test('a damaged record is named and shown as far as it can be read, and hides no other', async () => {
  const ledger = await budgeted();
  const ids = await holdsAt(ledger, [10, 20, 30, 40, 50, 60]);
  const [noAmount, noCreation, noCharge, noHash, noEnd, sound] = ids as [
    string,
    string,
    string,
    string,
    string,
    string,
  ];
  await ledger.commit(noCharge, 1);
  await ledger.release(noEnd);
  const before = await readLedger(ledger);
  await ledger.redis.hset(ledger.reservationKeyOf(noAmount), 'am', 'x');
  await ledger.redis.hdel(ledger.reservationKeyOf(noCreation), 'ca');
  await ledger.redis.hdel(ledger.reservationKeyOf(noCharge), 'ch');
  await ledger.redis.hdel(ledger.reservationKeyOf(noEnd), 'fa');
  await ledger.redis.set(ledger.reservationKeyOf(noHash), 'x');
  const { rows, unreadable } = await list(ledger);
  expect(rows.map(({ id }) => id).sort()).toEqual([noAmount, noCreation, noCharge, noEnd, sound].sort());
  const row = (id: string): Record<string, string> =>
    rows.find((one) => one['id'] === id) as Record<string, string>;
  expect([
    row(noAmount)['st'],
    row(noAmount)['am'],
    row(noCreation)['ca'],
    row(noCharge)['ch'],
    row(noEnd)['fa'],
  ]).toEqual([
    'ACTIVE',
    '0',
    await ledger.redis.zscore(reservationIndexKey(ledger.tag, ledger.tenant), noCreation),
    undefined,
    undefined,
  ]);
  expect(Object.fromEntries(unreadable)).toEqual({
    [noAmount]: 'INVALID_ESTIMATE',
    [noCreation]: 'INVALID_CREATION',
    [noCharge]: 'INVALID_END',
    [noEnd]: 'INVALID_END',
    [noHash]: 'NOT_A_RECORD',
  });
  // Only a live hold that cannot be settled is presented to an operator, once.
  await list(ledger);
  const { events, quarantine } = await readLedger(ledger);
  expect(
    events.slice(before.events.length).map(({ fields }) => [fields['ty'], fields['reservation_id']]),
  ).toEqual([['custom.reservation.quarantined', noAmount]]);
  expect([...quarantine.keys()]).toEqual([noAmount]);
});

test('the reservations of another tenant are not included', async () => {
  const ledger = await budgeted();
  const own = await ledger.hold();
  await ledger.makeBudget({ scope: 'tenant:other' });
  await ledger.hold({ tenant: 'other' });
  expect((await list(ledger)).ids).toEqual([own.id]);
});

describe('a record with a megabyte of metadata', () => {
  const METADATA = JSON.stringify({ note: 'x'.repeat(1_048_576) });

  /** Records of a version without a limit: live ones in both forms, and an ended one that is packed. */
  async function withMetadata(ledger: LedgerClient): Promise<string[]> {
    const { id: short } = await ledger.hold({ amount: 1, subject: { agent: 'bot' } });
    const { id: apart } = await ledger.hold({ amount: 2, subject: { agent: 'bot' } });
    await takeSubjectApart(ledger.redis, ledger.reservationKeyOf(apart));
    const { id: ended } = await ledger.hold({ amount: 3, subject: { agent: 'bot' } });
    await ledger.commit(ended, 3);
    await ledger.scripts.run('pack_records', [journalKey(ledger.tag)], [10]);
    expect(await ledger.redis.hexists(ledger.reservationKeyOf(ended), '0')).toBe(1);
    for (const id of [short, apart, ended]) {
      await ledger.redis.hset(ledger.reservationKeyOf(id), 'md', METADATA, 'cm', METADATA);
    }
    return [short, apart, ended];
  }

  test('is listed like any other, and none of its metadata is read', async () => {
    const ledger = await budgeted();
    const ids = await withMetadata(ledger);
    let run: Run | undefined;
    const commands = await commandsOf(ledger.redis, ledger.tag, async () => {
      run = await list(ledger, { where: { agent: 'bot' } });
    });
    expect(new Set(run?.ids)).toEqual(new Set(ids));
    expect(run?.rows.map(({ am, ws, ag, st }) => [am, ws, ag, st]).sort()).toEqual([
      ['1', undefined, 'bot', 'ACTIVE'],
      ['2', undefined, 'bot', 'ACTIVE'],
      ['3', undefined, 'bot', 'COMMITTED'],
    ]);
    expect(commands.filter(([name]) => name === 'HGETALL')).toEqual([]);
    expect(commands.filter(([name, , ...fields]) => name === 'HMGET' && fields.includes('md'))).toEqual([]);
  });

  test('is not packed when others are', async () => {
    const ledger = await budgeted();
    const { id } = await ledger.hold({ amount: 3 });
    await ledger.commit(id, 3, { metadata: METADATA });
    const before = await ledger.redis.hgetall(ledger.reservationKeyOf(id));
    const commands = await commandsOf(ledger.redis, ledger.tag, () =>
      ledger.scripts.run('pack_records', [journalKey(ledger.tag)], [10]),
    );
    expect(commands.map(([name]) => name)).not.toContain('HGETALL');
    expect(await ledger.redis.hgetall(ledger.reservationKeyOf(id))).toEqual(before);
  });
});

describe('a run ends early and continues where it ended', () => {
  /** The whole list, run by run, with the rows of each run. */
  async function all(ledger: LedgerClient, question: Question): Promise<Run[]> {
    const runs: Run[] = [];
    for (let after: Run['walked'] = ['', '']; runs.length === 0 || after[0] !== '';) {
      const run = await list(ledger, { ...question, after });
      runs.push(run);
      after = run.walked;
    }
    return runs;
  }

  test('when its rows hold many bytes', async () => {
    const ledger = await budgeted();
    const ids = await holdsAt(
      ledger,
      Array.from({ length: 12 }, (_, index) => 1000 + index),
    );
    for (const id of ids) {
      await ledger.redis.hset(ledger.reservationKeyOf(id), 'dm', `{"d":"${'x'.repeat(100_000)}"}`);
    }
    const runs = await all(ledger, { dir: 'asc' });
    expect(runs.map((run) => run.ids.length)).toEqual([3, 3, 3, 3]);
    expect(runs.flatMap((run) => run.ids)).toEqual(ids);
  });

  test('after it has expired many, and each is expired once', async () => {
    const ledger = await budgeted();
    const ids = await holdsAt(
      ledger,
      Array.from({ length: 60 }, (_, index) => 1000 + index),
    );
    for (const id of ids) {
      await ledger.makeOverdue(id);
    }
    const runs = await all(ledger, { dir: 'asc' });
    expect(runs.map((run) => run.outcomes.length)).toEqual([25, 25, 10]);
    expect(runs.flatMap((run) => run.ids)).toEqual(ids);
    await assertInvariants(ledger);
  });
});
