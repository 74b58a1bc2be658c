import { beforeAll, expect, test } from '@jest/globals';
import { fieldRows, givenRows, givenWriters } from '../../scripts/lua/field-table.js';
import { allParts, readLua, scriptPaths } from '../../scripts/lua/files.js';
import { libraryCode, libraryOf, scriptOf } from '../../scripts/lua/library.js';
import {
  archiveLeaseKey,
  eventLogKey,
  journalKey,
  reservationIndexKey,
  reservationKey,
} from '../../src/redis/keyspace.js';
import { type Library, LIBRARY, type Script } from '../../src/redis/script-library.js';
import type { GIVEN_WRITERS, GivenRow } from '../../src/redis/script-types.js';
import { ScriptRegistry } from '../../src/redis/scripts.js';
import { givenMembers } from '../../src/reservations/given-fields.js';
import { type Hold, LedgerClient, RETENTION_MS, TRACE } from '../support/ledger-client.js';
import { useLedger } from '../support/use-ledger.js';

/** Rows that the table does not have. Each place that follows the table has to have the fields without another line of code. */
const PRIORITY = "{ 'priority', 'py', 'map', of = 'request', most = 9, row = true, archived = true },";
const DUE = "{ 'due_at', 'da', 'time', untold = true },";

const newLedger = useLedger();
const table = readLua('lib/field.lua').replace('\n}\n', `\n  ${PRIORITY}\n  ${DUE}\n}\n`);
const given = givenRows(fieldRows(table)) as GivenRow[];
const request = { priority: { of: 'made-up' } };
const stored = '{"of":"made-up"}';
const fields = { py: stored, da: 'soon', md: JSON.stringify({ note: 'm'.repeat(1100) }) };

let ledger: LedgerClient;
let hold: Hold;

/** The scripts with that table. */
function madeUpLibrary(): Library {
  const parts = new Map([...allParts(), ['field', table]]);
  const sources = [...scriptPaths().values()].map((path) => scriptOf(path, readLua(path), parts));
  const library = libraryOf(sources, parts);
  const scripts = [...LIBRARY.scripts].map(([name, script]): [string, Script] => [
    name,
    { ...script, functionName: library.functionNames.get(name) as string },
  ]);
  return { name: library.name, body: library.body, code: libraryCode(library), scripts: new Map(scripts) };
}

beforeAll(async () => {
  const plain = await newLedger();
  ledger = plain.over(plain.redis, new ScriptRegistry(plain.redis, madeUpLibrary()));
  await ledger.makeTenant();
  await ledger.makeBudget();
  hold = await ledger.hold({ fields });
});

const read = async (name: string, keys: string[], args: (string | number)[]): Promise<string[]> =>
  ledger.scripts.run(name as never, keys as never, args as never);

test('the writer of requests and the reader of records have it', () => {
  const pairs: string[] = [];
  const code = `return ${givenWriters(fieldRows(table))}`;
  // eslint-disable-next-line @typescript-eslint/no-implied-eval -- generated code, as the file that it is written to
  const writers = new Function(code)() as typeof GIVEN_WRITERS;
  writers.request(request, pairs, JSON.stringify);
  expect(pairs).toEqual(['py', stored]);
  expect(givenMembers('request', new Map([['py', stored]]), undefined, { rows: given })).toEqual(request);
  const damage: string[] = [];
  const damaged = new Map([['py', '{"of":"longer than nine"}']]);
  givenMembers('request', damaged, (reason) => damage.push(reason), { rows: given });
  expect(damage).toEqual(['INVALID_JSON']);
});

test('rows of lists have it, however long the metadata is', async () => {
  const list = [ledger.tenant, 'desc', '-inf', '+inf', '', '', 100, 100, RETENTION_MS, 'req_list', TRACE];
  const reply = await read('list_reservations', [reservationIndexKey(ledger.tag, ledger.tenant)], list);
  expect(reply).toContain(hold.id);
  expect(reply).toContain(stored);
});

test('a denial tells it, but for what the table keeps back', async () => {
  expect((await ledger.reserve({ amount: 10_000, fields }))[0]).toBe('BUDGET_EXCEEDED');
  const [[, told] = ['', []]] = await ledger.redis.xrange(eventLogKey(ledger.tag), '-', '+');
  expect(told).toContain('py');
  expect(told).not.toContain('da');
  expect(told).not.toContain('md');
});

test('a damaged record shows it, unless it is damaged itself', async () => {
  const key = reservationKey(ledger.tag, hold.id);
  await ledger.redis.hset(key, 'ca', 'never');
  const reply = await read(
    'get_reservation',
    [key],
    [ledger.tenant, hold.id, RETENTION_MS, 'req_get', TRACE],
  );
  expect(reply.slice(0, 2)).toEqual(['FOUND', 'INVALID_CREATION']);
  expect(reply).toContain(stored);
  expect(reply).not.toContain('da');
});

test('packing keeps it, and the archive has it', async () => {
  const { id } = await ledger.hold({ fields: { ...fields, md: '{}' } });
  await ledger.commit(id, 5);
  const key = reservationKey(ledger.tag, id);
  // Nothing is archived yet, so packing leaves the journal as it is.
  await ledger.redis.hset(`${ledger.tag}journal-places`, 'cursor', '0-0');
  await read('pack_records', [journalKey(ledger.tag)], [10]);
  expect(await ledger.redis.hget(key, '0')).not.toBeNull();
  expect(await ledger.redis.hget(key, 'py')).toBe(stored);
  await ledger.redis.set(archiveLeaseKey(ledger.tag), 'token');
  const page = ['token', 'charges', '0-0', '0-0', '', -1000, 10, '0'];
  expect(await read('archive_page', [archiveLeaseKey(ledger.tag), journalKey(ledger.tag)], page)).toContain(
    stored,
  );
});
