import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { readLua, scriptPaths } from '../../scripts/lua/files.js';
import { type AssembledLibrary, libraryCode, libraryOf, scriptOf } from '../../scripts/lua/library.js';
import { isOwnLibrary, LIBRARY, libraryText, libraryWithTestClock } from '../../src/redis/script-library.js';
import { ScriptRegistry } from '../../src/redis/scripts.js';
import { eventually } from '../support/eventually.js';
import { LedgerClient } from '../support/ledger-client.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';

/** The libraries of others. Two of them have names that begin as Holdfast's do, one of them exactly such a name. */
const FOREIGN = ['another_service', 'holdfast_reports', 'holdfast_0123456789ab'];

let server: RedisServer;
let redis: Redis;

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
});
afterAll(async () => {
  await redis.quit();
  await server.stop();
});

beforeEach(async () => {
  await redis.function('FLUSH');
  await new ScriptRegistry(redis).load();
  await redis.function('LOAD', libraryCode(otherVersion()));
  for (const name of FOREIGN) {
    await redis.function(
      'LOAD',
      `#!lua name=${name}\nredis.register_function('${name}', function() return 'OK' end)`,
    );
  }
});

async function libraries(): Promise<string[]> {
  return ((await redis.function('LIST')) as string[][]).map(
    (library) => library[library.indexOf('library_name') + 1] as string,
  );
}

test('a start removes what other versions have loaded, and nothing that belongs to others', async () => {
  await new ScriptRegistry(redis).load();
  expect((await libraries()).sort()).toEqual([...FOREIGN, LIBRARY.name].sort());
});

test('starts at the same time all end with the library loaded, and leave that of others', async () => {
  await redis.function('FLUSH');
  await Promise.all(Array.from({ length: 4 }, () => new ScriptRegistry(redis).load()));
  expect(await libraries()).toEqual([LIBRARY.name]);
});

/** The library of a version in which `expire` replies differently. */
function otherVersion(): AssembledLibrary {
  const textOf = (name: string, path: string): string => {
    const text = readLua(path);
    return name === 'expire' ? `${text.slice(0, text.indexOf('\nlocal '))}\nreturn { 'OTHER' }` : text;
  };
  return libraryOf([...scriptPaths()].map(([name, path]) => scriptOf(path, textOf(name, path))));
}

test('two versions with scripts of the same names each run their own', async () => {
  const ledger = await LedgerClient.make(redis);
  const functionName = otherVersion().functionNames.get('expire') as string;
  expect(await redis.fcall(functionName, 1, ledger.reservationKeyOf(ledger.newId()))).toEqual(['OTHER']);
  expect((await ledger.expire(ledger.newId()))[0]).toBe('NOT_FOUND');
});

test('a version whose functions were removed loads them again and removes none of another, so that both can run', async () => {
  const ledger = await LedgerClient.make(redis);
  await ledger.makeBudget();
  await redis.function('DELETE', LIBRARY.name);
  await ledger.hold();
  await eventually('they are back', async () => (await libraries()).includes(LIBRARY.name));
  const all = [...FOREIGN, otherVersion().name, LIBRARY.name];
  expect((await libraries()).sort()).toEqual(all.sort());
});

test.each([[], ['allow-oom'], ['no-writes']])(
  'the text of the library compiles with the flags %j',
  async (...flags) => {
    expect(await redis.script('LOAD', libraryText(flags))).toMatch(/^[0-9a-f]{40}$/);
  },
);

test('the name and the functions of the library follow from the files in lua', () => {
  const { name, functionNames } = libraryOf(
    [...scriptPaths().values()].map((path) => scriptOf(path, readLua(path))),
  );
  expect(LIBRARY.name).toBe(name);
  expect([...functionNames]).toEqual(
    [...LIBRARY.scripts].map(([script, { functionName }]) => [script, functionName]),
  );
});

test('the library with a test clock has names of its own, and only it reads the clock', () => {
  const clocked = libraryWithTestClock();
  expect(clocked.name).not.toBe(LIBRARY.name);
  for (const { name, code } of [LIBRARY, clocked]) {
    expect(isOwnLibrary(name, code)).toBe(true);
  }
  for (const [name, { functionName, attested }] of clocked.scripts) {
    expect(functionName).not.toBe(LIBRARY.scripts.get(name)?.functionName);
    expect(clocked.code).toContain(`'${functionName}'`);
    expect(attested?.functionName).toBe(attested && `${functionName}_attested`);
  }
  const reads = 'keys.test_clock()';
  expect([LIBRARY, clocked].map(({ code }) => code.split(reads).length - 1)).toEqual([1, 2]);
});
