import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { journalKey, journalPlacesKey, reservationKey } from '../../src/redis/keyspace.js';
import { takeSubjectApart } from '../support/hold-record.js';
import { debit } from '../support/admission-client.js';
import { appendEnd } from '../support/journal.js';
import { randomText, RETENTION_MS, type LedgerClient } from '../support/ledger-client.js';
import { useLedger } from '../support/use-ledger.js';
import { probeText } from '../support/script-probe.js';

const newLedger = useLedger();

const READ = probeText(`#!lua flags=no-writes
-- probe: reads a record.
-- KEYS[1] reservation
-- RETURNS pairs
-- BOUND one probe
-- EMITS nothing
-- @include hold_form
local flat = {}
for name, value in pairs(hold_form.record_fields(KEYS[1])) do
  flat[#flat + 1] = name
  flat[#flat + 1] = value
end
return flat
`);

async function read(ledger: LedgerClient, id: string): Promise<Record<string, string>> {
  const flat = (await ledger.redis.eval(READ, 1, reservationKey(ledger.tag, id))) as string[];
  return Object.fromEntries(
    flat.flatMap((text, index) => (index % 2 === 0 ? [[text, flat[index + 1] as string]] : [])),
  );
}

async function pack(ledger: LedgerClient): Promise<string[]> {
  return ledger.scripts.run('pack_records', [journalKey(ledger.tag)], [1000]);
}

async function isPacked(ledger: LedgerClient, id: string): Promise<boolean> {
  return (await ledger.redis.hexists(reservationKey(ledger.tag, id), '0')) === 1;
}

/** An ended record with these fields, as if a script had written it. */
async function writeEnded(ledger: LedgerClient, fields: Record<string, string>): Promise<string> {
  const id = ledger.newId();
  const key = reservationKey(ledger.tag, id);
  await ledger.redis.multi().hset(key, fields).pexpire(key, RETENTION_MS).exec();
  await appendEnd(ledger.redis, ledger.tag, id);
  return id;
}

describe('packing', () => {
  test('follows every end, keeps every value and the time that is left, and takes a third less than separate fields', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 10_000 });
    const subject = { workspace: 'Prod', agent: 'bot' };
    const committed = await ledger.hold({
      amount: 10,
      subject,
      key: '0190a5a2-8f3a-7b1c-9d4e-5f60718293a4',
      by: `key_${ledger.tag.slice(2, 4)}0123456789abcdef`,
    });
    await ledger.extend(committed.id, 1000, { by: 'key_2' });
    await ledger.extend(committed.id, 2000);
    await ledger.commit(committed.id, 12, { metadata: '{"a":1}' });
    const released = await ledger.hold({ amount: 10, subject });
    await ledger.release(released.id, { reason: 'a reason | of some words' });
    const expired = await ledger.hold({ amount: 10, fields: { ce: '4' } });
    await ledger.makeOverdue(expired.id);
    await ledger.expire(expired.id);
    const live = await ledger.hold();
    const ids = [committed.id, released.id, expired.id];
    const before = await Promise.all(ids.map((id) => ledger.record(id)));
    const key = ledger.reservationKeyOf(committed.id);
    const apart = `${key.slice(0, -1)}~`;
    await ledger.redis.copy(key, apart);
    await takeSubjectApart(ledger.redis, apart);
    const size = await ledger.redis.memory('USAGE', apart);
    await ledger.redis.del(apart);
    const left = await ledger.redis.pexpiretime(ledger.reservationKeyOf(released.id));
    expect(await pack(ledger)).toEqual(['PACKED', '3', '3', '0', '3', '0']);
    expect(await Promise.all(ids.map((id) => isPacked(ledger, id)))).toEqual([true, true, true]);
    expect(await Promise.all(ids.map((id) => read(ledger, id)))).toEqual(before);
    expect(await ledger.redis.pexpiretime(ledger.reservationKeyOf(released.id))).toBe(left);
    expect(Number(await ledger.redis.memory('USAGE', key))).toBeLessThan((2 / 3) * Number(size));
    expect(await isPacked(ledger, live.id)).toBe(false);
  });

  test('returns everything that a record held, byte for byte, or does not pack it', async () => {
    const ledger = await newLedger();
    const text = fc.oneof(
      fc.string({ maxLength: 80 }),
      fc.string({ unit: 'binary', maxLength: 20 }),
      fc.constantFrom(
        '',
        '=',
        '*',
        '~',
        '~x',
        '\u001f',
        '0',
        '00',
        '-1',
        '1e3',
        'nan',
        'system',
        'key_1',
        'ACTIVE',
        '7C9E6679-7425-40DE-944B-E07FC1F90AE7',
        '7c9e6679-7425-40de-944b-e07fc1f90ae7',
        '9223372036854775807',
        '5+6',
        '5+6+key_2',
      ),
    );
    const names = [
      'tn',
      'ws',
      'ap',
      'wf',
      'ag',
      'ts',
      'un',
      'op',
      'bm',
      'am',
      'ch',
      'ca',
      'ex',
      'fa',
      'gr',
      'mx',
      'mt',
      'ki',
      'eb',
      'ak',
      'an',
      'xc',
      'x1',
      'x2',
      'ev',
      'tv',
      'rr',
      'ik',
      'md',
      'zz',
    ];
    const usual = {
      st: 'RELEASED',
      tn: 'acme',
      un: 'TOKENS',
      op: 'REJECT',
      bm: '1',
      am: '10',
      ca: '1763722222222',
      ex: '1763722282222',
      fa: '1763722225222',
      gr: '5000',
      mx: '10',
      ki: 'key_1',
      eb: 'key_1',
    };
    const odd = fc.dictionary(fc.constantFrom(...names), text, { maxKeys: 6 });
    await fc.assert(
      fc.asyncProperty(odd, async (fields) => {
        const id = await writeEnded(ledger, { ...usual, ...fields });
        const before = await ledger.record(id);
        await pack(ledger);
        expect(await read(ledger, id)).toEqual(before);
      }),
      { numRuns: 300 },
    );
  });

  test('skips live, missing and already packed records, and keys that are not records', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const live = await ledger.hold();
    const done = await ledger.hold();
    await ledger.release(done.id);
    await pack(ledger);
    const [liveBefore, doneBefore] = [await ledger.record(live.id), await ledger.record(done.id)];
    const odd = ledger.newId();
    await ledger.redis.set(reservationKey(ledger.tag, odd), 'text');
    await appendEnd(ledger.redis, ledger.tag, live.id, done.id, odd, ledger.newId());
    expect(await pack(ledger)).toEqual(['PACKED', '4', '0', '0', '4', '0']);
    expect([await ledger.record(live.id), await ledger.record(done.id)]).toEqual([liveBefore, doneBefore]);
  });

  test('is overridden by fields that are set later', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold();
    await ledger.release(id);
    await pack(ledger);
    await ledger.redis.hset(ledger.reservationKeyOf(id), 'rr', 'mended');
    expect(await read(ledger, id)).toMatchObject({ rr: 'mended', st: 'RELEASED' });
  });

  test('is bounded', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    for (let count = 0; count < 3; count += 1) {
      await ledger.release((await ledger.hold({ key: randomText(9) })).id);
    }
    expect(await ledger.scripts.run('pack_records', [journalKey(ledger.tag)], [2])).toEqual([
      'PACKED',
      '2',
      '2',
      '1',
      '2',
      '0',
    ]);
    expect(await ledger.redis.xlen(journalKey(ledger.tag))).toBe(1);
  });

  test('tells how far it has come, and what it has passed leaves the journal', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    await ledger.release((await ledger.hold({ key: 'one' })).id);
    await debit(ledger, { amount: 1 });
    const last = (await ledger.redis.xrevrange(journalKey(ledger.tag), '+', '-', 'COUNT', 1))[0]?.[0];
    await ledger.release((await ledger.hold({ key: 'two' })).id);
    // A debit has no record.
    expect(await ledger.scripts.run('pack_records', [journalKey(ledger.tag)], [2])).toEqual([
      'PACKED',
      '1',
      '1',
      '1',
      '2',
      '0',
    ]);
    expect(await ledger.redis.hgetall(journalPlacesKey(ledger.tag))).toEqual({ packed: last, kept: '0' });
    expect(await pack(ledger)).toEqual(['PACKED', '1', '1', '0', '1', '0']);
    expect(await pack(ledger)).toEqual(['PACKED', '0', '0', '0', '0', '0']);
  });
});
