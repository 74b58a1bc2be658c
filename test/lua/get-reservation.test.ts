import { expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import { damageHold } from '../support/hold-record.js';
import { assertInvariants, readLedger, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();

function fieldsOf(reply: readonly string[]): Record<string, string> {
  expect(reply[0]).toBe('FOUND');
  const fields: Record<string, string> = {};
  for (let index = 3; index < reply.length; index += 2) {
    fields[reply[index] as string] = reply[index + 1] as string;
  }
  return fields;
}

test('a live reservation is returned as it is stored, and reading changes nothing', async () => {
  shows('getReservation');
  const ledger = await newLedger();
  await ledger.makeBudget();
  const { id } = await ledger.hold({ fields: { dm: '{"a":"b"}', md: '{}' } });
  const before = await snapshot(ledger);
  expect(fieldsOf(await ledger.get(id))).toEqual(await ledger.record(id));
  expect(await snapshot(ledger)).toEqual(before);
});

test('a settled reservation, one in its grace, and those of a closed tenant are returned too', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  const committed = await ledger.hold();
  const released = await ledger.hold();
  const waiting = await ledger.hold();
  await ledger.commit(committed.id, 1);
  await ledger.release(released.id);
  await ledger.putInGrace(waiting.id);
  await ledger.makeTenant({ status: 'CLOSED' });
  expect(fieldsOf(await ledger.get(committed.id))['st']).toBe('COMMITTED');
  expect(fieldsOf(await ledger.get(released.id))['st']).toBe('RELEASED');
  expect(fieldsOf(await ledger.get(waiting.id))['st']).toBe('ACTIVE');
});

test('an unknown reservation is not found, a foreign one is forbidden, and an operator reads any', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  const { id } = await ledger.hold();
  expect(await ledger.get(ledger.newId())).toEqual(['NOT_FOUND']);
  expect(await ledger.get(id, 'other')).toEqual(['FORBIDDEN']);
  expect((await ledger.get(id, ''))[0]).toBe('FOUND');
});

test("another tenant's read of an overdue reservation is forbidden and expires nothing", async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  const { id } = await ledger.hold();
  await ledger.makeOverdue(id);
  const before = await snapshot(ledger);
  expect(await ledger.get(id, 'other')).toEqual(['FORBIDDEN']);
  expect(await snapshot(ledger)).toEqual(before);
});

test('an overdue reservation is expired by the read, once, and is reported as expired from then on', async () => {
  shows('expired');
  const ledger = await newLedger();
  await ledger.makeBudget();
  const { id } = await ledger.hold({ amount: 100 });
  const deadline = await ledger.makeOverdue(id);
  expect((await ledger.get(id)).slice(0, 4)).toEqual([
    'RESERVATION_EXPIRED',
    'now',
    ledger.tenant,
    String(deadline),
  ]);
  expect(await ledger.figures()).toBe('1000,0,0,1000,0,0,0');
  const { events } = await assertInvariants(ledger);
  expect(events.map(({ fields }) => `${fields['ty']} ${fields['rq']}`)).toEqual([
    'reservation.expired req_get',
  ]);
  const before = await snapshot(ledger);
  expect(await ledger.get(id)).toEqual(['RESERVATION_EXPIRED']);
  expect(await snapshot(ledger)).toEqual(before);
});

test('a damaged record is returned as far as it can be read, and a live one is quarantined by the read, once', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  const { id } = await ledger.hold();
  await ledger.makeOverdue(id);
  await damageHold(ledger.redis, ledger.reservationKeyOf(id), 'bm');
  const first = await ledger.get(id);
  expect(first.slice(0, 3)).toEqual(['FOUND', 'MISSING_SCOPES', 'MISSING_SCOPES']);
  expect(fieldsOf(first)).toMatchObject({ st: 'ACTIVE', tn: ledger.tenant, am: '10', bm: '0' });
  expect((await ledger.get(id)).slice(0, 3)).toEqual(['FOUND', 'MISSING_SCOPES', '']);
  expect((await ledger.get(id, 'other'))[0]).toBe('FORBIDDEN');
  const { ttl, quarantine, events } = await readLedger(ledger);
  expect([ttl.size, quarantine.size, events.length]).toEqual([0, 1, 1]);
});

test('a key that is not a record is not found, and is left as it is', async () => {
  const ledger = await newLedger();
  await ledger.redis.set(ledger.reservationKeyOf('rsv_other'), 'x');
  expect(await ledger.get('rsv_other')).toEqual(['NOT_FOUND', 'NOT_A_RECORD']);
  expect(await ledger.redis.get(ledger.reservationKeyOf('rsv_other'))).toBe('x');
});
