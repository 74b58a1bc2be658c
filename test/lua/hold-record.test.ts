import { describe, expect, test } from '@jest/globals';
import type { SubjectLevels } from '../../src/ledger/scopes.js';
import { journalKey, idempotencyKey } from '../../src/redis/keyspace.js';
import { holdFields, takeSubjectApart } from '../support/hold-record.js';
import type { LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, readLedger } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const SUBJECT = { workspace: 'Prod', agent: 'Bot' };
const LONG = { workspace: 'w'.repeat(20), app: 'a'.repeat(20), agent: 'b'.repeat(20) };
/** More than the scripts cache. */
const SUBJECTS = 1010;

interface Settled {
  readonly reply: string[];
  readonly fields: Record<string, string>;
}

async function settleAll(
  ledger: LedgerClient,
  subject: SubjectLevels,
  prepare: (key: string) => Promise<unknown>,
): Promise<Settled[]> {
  await ledger.makeBudget();
  await ledger.makeBudget({ scope: ledger.scope(subject) });
  const ways: ((id: string) => Promise<string[]>)[] = [
    (id) => ledger.commit(id, 7),
    (id) => ledger.release(id, { reason: 'why' }),
    async (id) => {
      await ledger.makeOverdue(id);
      return ledger.expire(id);
    },
    async (id) => {
      await ledger.extend(id, 1000);
      return ledger.get(id);
    },
  ];
  const settled: Settled[] = [];
  for (const way of ways) {
    const { id } = await ledger.hold({ amount: 10, subject, key: `key-${settled.length}` });
    await prepare(ledger.reservationKeyOf(id));
    const reply = (await way(id)).map((text) =>
      text
        .replaceAll(id, 'ID')
        .replaceAll(ledger.tenant, 'TENANT')
        .replace(/^\d{13}/, 'TIME'),
    );
    const { ex: _ex, ca: _ca, fa: _fa, ev: _ev, x1: _x1, tn: _tn, ...fields } = await ledger.record(id);
    settled.push({ reply: reply.sort(), fields });
  }
  await assertInvariants(ledger);
  return settled;
}

describe('the subject of a live record', () => {
  test('is one field, or one per level if one would be too long for a compact record', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const stored = async (subject: SubjectLevels): Promise<Record<string, string>> => {
      const { id } = await ledger.hold({ subject });
      expect(await ledger.redis.object('ENCODING', ledger.reservationKeyOf(id))).toBe('listpack');
      return ledger.redis.hgetall(ledger.reservationKeyOf(id));
    };
    const short = await stored(SUBJECT);
    expect(Object.keys(short)).not.toContain('tn');
    expect(holdFields(short)).toMatchObject({
      tn: ledger.tenant,
      ws: 'Prod',
      ag: 'Bot',
      un: 'TOKENS',
      bm: '100',
    });
    const long = await stored(LONG);
    expect(Object.keys(long)).not.toContain('su');
    expect(long).toMatchObject({
      tn: ledger.tenant,
      ws: LONG.workspace,
      ap: LONG.app,
      ag: LONG.agent,
      un: 'TOKENS',
      bm: '1000',
    });
  });

  test('is read in both forms by everything that settles, extends or shows it', async () => {
    const asMade = await settleAll(await newLedger(), SUBJECT, () => Promise.resolve());
    const ledger = await newLedger();
    const apart = await settleAll(ledger, SUBJECT, (key) => takeSubjectApart(ledger.redis, key));
    expect(apart).toEqual(asMade);
    expect(asMade.map(({ reply }) => reply.find((text) => /^[A-Z]{6,}$/.test(text)))).toEqual(
      expect.arrayContaining(['COMMITTED', 'RELEASED', 'EXPIRED']),
    );
    const long = await settleAll(await newLedger(), LONG, () => Promise.resolve());
    expect(long.map(({ fields }) => fields['st'])).toEqual(['COMMITTED', 'RELEASED', 'EXPIRED', 'ACTIVE']);
  });

  test.each(['', 'acme', 'acme\u001fProd\u001f\u001f\u001f\u001f\u001fTOKENS\u001f1\u001f1'])(
    'that is damaged (%j) puts the hold into quarantine',
    async (damaged) => {
      const ledger = await newLedger();
      await ledger.makeBudget();
      const { id } = await ledger.hold({});
      await ledger.makeOverdue(id);
      await ledger.redis.hset(ledger.reservationKeyOf(id), 'su', damaged);
      expect((await ledger.commit(id, 1)).slice(0, 2)).toEqual(['QUARANTINED', 'MISSING_SCOPES']);
      expect((await ledger.expirePage([id]))[2]).toBe('QUARANTINED');
      expect((await readLedger(ledger)).quarantine.get(id)).toMatch(/^MISSING_SCOPES \d+$/);
    },
  );

  test('is distinguished from all others, however many one run reads', async () => {
    const ledger = await newLedger();
    const subjects = Array.from({ length: SUBJECTS }, (_, number) => ({ agent: `bot-${number}` }));
    await ledger.makeBudget({ allocated: 10_000_000 });
    await Promise.all(
      subjects.map((subject) => ledger.makeBudget({ scope: ledger.scope(subject), allocated: 10_000 })),
    );
    const holdEach = async (): Promise<string[]> =>
      (
        await Promise.all(subjects.map((subject, number) => ledger.hold({ subject, amount: number + 1 })))
      ).map(({ id }) => id);
    // Read all of them once, and then again: by then the first have left the cache.
    const ids = [...(await holdEach()), ...(await holdEach())];
    await Promise.all(ids.map((id) => ledger.makeOverdue(id)));
    const [, , ...outcomes] = await ledger.expirePage(ids);
    expect(outcomes.filter((word) => word === 'EXPIRED')).toHaveLength(ids.length);
    expect(await ledger.figures()).toBe('10000000,0,0,10000000,0,0,0');
    const figures = await Promise.all(subjects.map((subject) => ledger.figures(ledger.scope(subject))));
    expect(new Set(figures)).toEqual(new Set(['10000,0,0,10000,0,0,0']));
    await assertInvariants(ledger);
  });
});

describe('what never changes in a live record', () => {
  const TERMS = { op: 'ALLOW_WITH_OVERDRAFT', mx: '10', ki: 'key_1', ak: 'llm' };

  test.each([
    ['one field', 'gpt', true],
    ['one field, also with separators in the name', 'g\u001fp\u001ft', true],
    ['a field for each, if one would be too long for a compact record', 'g'.repeat(60), false],
  ])('is %s', async (_, name, isOne) => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold({ policy: TERMS.op, fields: { an: name } });
    const key = ledger.reservationKeyOf(id);
    expect(await ledger.redis.object('ENCODING', key)).toBe('listpack');
    expect(await ledger.redis.hexists(key, 'cn')).toBe(isOne ? 1 : 0);
    expect(await ledger.record(id)).toMatchObject({ ...TERMS, an: name });
    expect((await ledger.get(id)).join(' ')).toContain(name);
    await ledger.extend(id, 1000);
    await ledger.extend(id, 1000, { by: 'key_2' });
    const { x1: byMaker, x2: byAnother } = await ledger.record(id);
    expect([byMaker, byAnother].map((text) => text?.replace(/^\d+/, ''))).toEqual(['+1000', '+1000+key_2']);
    expect((await ledger.commit(id, 11))[5]).toBe(TERMS.op);
    expect(await ledger.record(id)).toMatchObject({ ...TERMS, an: name });
    await assertInvariants(ledger);
  });

  test('is separate fields if the kind of the action has a separator', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold({ fields: { ak: 'l\u001fm' } });
    expect(await ledger.record(id)).toMatchObject({ ak: 'l\u001fm', an: 'gpt', mx: '10' });
    expect(await ledger.redis.hexists(ledger.reservationKeyOf(id), 'cn')).toBe(0);
  });

  test('takes precedence over a separate field, in responses too', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold({ fields: { an: 'real' } });
    await ledger.redis.hset(ledger.reservationKeyOf(id), 'an', 'stray');
    const answer = await ledger.get(id);
    expect(answer).toContain('real');
    expect(answer).not.toContain('stray');
  });

  test.each(['', 'a', 'x10\u001fkey_1\u001fllm\u001fgpt', 'a1e1\u001fkey_1\u001fllm\u001fgpt'])(
    'counts as missing if it is damaged (%j)',
    async (damaged) => {
      const ledger = await newLedger();
      await ledger.makeBudget();
      const { id } = await ledger.hold({ amount: 10 });
      await ledger.redis.hset(ledger.reservationKeyOf(id), 'cn', damaged);
      expect((await ledger.get(id))[0]).toBe('FOUND');
      expect(await ledger.extend(id, 1000)).toEqual(['MAX_EXTENSIONS_EXCEEDED', '0']);
      expect((await ledger.commit(id, 11)).slice(0, 2)).toEqual(['QUARANTINED', 'INVALID_POLICY']);
    },
  );
});

describe('an idempotency key that is a UUID', () => {
  const KEY = '0190a5a2-8f3a-7b1c-9d4e-5f60718293ff';

  async function held(): Promise<{ ledger: LedgerClient; id: string }> {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold({ key: KEY });
    return { ledger, id };
  }

  test('is read from its bytes, live and packed', async () => {
    const { ledger, id } = await held();
    const keyOf = async (): Promise<string | undefined> => {
      const reply = await ledger.get(id);
      return reply[reply.indexOf('ik') + 1];
    };
    expect(await keyOf()).toBe(KEY);
    await ledger.commit(id, 1);
    expect(await keyOf()).toBe(KEY);
    await ledger.scripts.run('pack_records', [journalKey(ledger.tag)], [10]);
    expect(await ledger.redis.hexists(ledger.reservationKeyOf(id), 'iu')).toBe(0);
    expect(await keyOf()).toBe(KEY);
  });

  test('leads an extension to the record of the reserve', async () => {
    const { ledger, id } = await held();
    await ledger.extend(id, 100_000_000);
    const record = idempotencyKey.reserve(ledger.tag, ledger.tenant, KEY);
    expect(await ledger.redis.pttl(record)).toBeGreaterThan(90_000_000);
  });

  test.each(['', 'AZClovOKexydTl9gcYKT_', 'AZClovOKexydTl9gcYKT*!', 'x'.repeat(70)])(
    'counts as missing if its bytes are damaged (%j)',
    async (damaged) => {
      const { ledger, id } = await held();
      await ledger.redis.hset(ledger.reservationKeyOf(id), 'iu', damaged);
      const reply = await ledger.get(id);
      expect(reply[0]).toBe('FOUND');
      expect(reply).not.toContain('ik');
      expect((await ledger.extend(id, 1000))[0]).toBe('ACTIVE');
      expect((await ledger.commit(id, 1))[0]).toBe('COMMITTED');
    },
  );
});
