import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { scriptPaths } from '../../scripts/lua/files.js';
import { headerField, parseHeader } from '../../scripts/lua/header.js';
import { type AssembledLibrary, libraryCode, libraryOf, scriptOf } from '../../scripts/lua/library.js';
import { LIBRARY } from '../../src/redis/script-library.js';
import { probeText } from '../support/script-probe.js';
import { code, scriptTexts } from '../support/script-text.js';
import { sharedStoreUrl } from '../support/store.js';

const HEADER =
  '#!lua\n-- probe: says nothing.\n-- KEYS[1] a\n-- ARGV[1] b\n-- RETURNS OK\n-- BOUND one key\n-- EMITS nothing\n';

describe('the scripts are not assembled', () => {
  test('when two folders hold a script of one name', () => {
    const lua = mkdtempSync(join(tmpdir(), 'lua-'));
    for (const folder of ['ledger', 'lib', 'webhooks']) {
      mkdirSync(join(lua, folder));
      writeFileSync(join(lua, folder, 'extend.lua'), HEADER);
    }
    expect(() => scriptPaths(pathToFileURL(`${lua}/`))).toThrow(
      'lua/ledger/extend.lua and lua/webhooks/extend.lua have one name',
    );
    rmSync(join(lua, 'webhooks'), { recursive: true });
    expect([...scriptPaths(pathToFileURL(`${lua}/`))]).toEqual([['extend', 'ledger/extend.lua']]);
    rmSync(lua, { recursive: true });
  });

  test('when an include does not exist, or there is a second field of includes', () => {
    const including = (include: string) => () =>
      scriptOf('probe.lua', `${HEADER}-- @include ${include}\nreturn 1\n`);
    expect(including('no_such_part')).toThrow('there is no part no_such_part');
    expect(including('keys: ttl_index')).toThrow("not the one field of the form '-- @include part, part'");
    expect(including('keys,')).toThrow('not the one field');
    expect(including('keys\n-- @include time')).toThrow("'-- @include time' is not the one field");
  });

  test.each([
    ['the shebang', '#!lua\n'],
    ['the title', '-- probe: says nothing.\n'],
    ['RETURNS', '-- RETURNS OK\n'],
    ['BOUND', '-- BOUND one key\n'],
    ['EMITS', '-- EMITS nothing\n'],
  ])('when a header lacks %s', (_, part) => {
    expect(() => parseHeader('probe', HEADER.replace(part, ''))).toThrow('probe.lua: the header needs');
  });

  test('when a header is titled with another name, or numbers its keys or arguments out of order', () => {
    expect(() => parseHeader('other', HEADER)).toThrow("'-- other: ...'");
    expect(() => parseHeader('probe', HEADER.replace('KEYS[1]', 'KEYS[2]'))).toThrow(
      'KEYS[2] is out of order',
    );
    expect(() => parseHeader('probe', HEADER.replace('ARGV[1]', 'ARGV[0]'))).toThrow(
      'ARGV[0] is out of order',
    );
    expect(() => parseHeader('probe', HEADER.replace('ARGV[1] b', 'ARGV[1-3] origin'))).toThrow(
      'ARGV[1-3] is out of order',
    );
  });
});

test('an origin in a header stands for four arguments', () => {
  const { args } = parseHeader('probe', HEADER.replace('ARGV[1] b', 'ARGV[1-4] origin'));
  expect(args).toEqual(['actor', 'key_id', 'request_id', 'trace']);
});

test('a text for EVAL has its shebang first, each part once, and no comments', () => {
  const source = probeText(
    `#!lua flags=allow-oom\n${HEADER.slice(6)}-- @include settle, expiry, keys\nreturn expiry.reclaim(settle.open_hold, keys.reservation)\n`,
  );
  expect(source.startsWith('#!lua flags=allow-oom\n')).toBe(true);
  expect(source.match(/^function keys\.reservation\(/gm)).toHaveLength(1);
  expect(source.indexOf('function keys.reservation(')).toBeLessThan(source.indexOf('function reclaim'));
  expect(source).not.toMatch(/^\s*--/m);
});

test('a script sees the parts that it includes, and of each only the table that it returns', async () => {
  const redis = new Redis(sharedStoreUrl());
  const run = (expression: string): Promise<unknown> =>
    redis.eval(probeText(`${HEADER}-- @include int64\nreturn tostring(${expression})\n`), 0);
  expect(await run("int64.add('9223372036854775806', '1')")).toBe('9223372036854775807');
  expect(await run('int64.no_such')).toBe('nil');
  await expect(run('keys')).rejects.toThrow("nonexistent global variable 'keys'");
  await redis.quit();
});

describe('the library of the scripts', () => {
  const text = (answer: string): string =>
    `#!lua flags=allow-oom\n${HEADER.slice(6)}-- @include settle, keys\nreturn { settle.open_hold, keys.reservation(${answer}) }\n`;
  const libraryWith = (answer: string): AssembledLibrary => libraryOf([scriptOf('probe.lua', text(answer))]);

  test('has each part once, before the functions that use it, with their flags', () => {
    const { code } = LIBRARY;
    expect(code.match(/^function keys\.reservation\(/gm)).toHaveLength(1);
    expect(code.match(/^register\{/gm)).toHaveLength(scriptPaths().size + 6);
    const probe = libraryWith("'a'");
    expect(probe.body.indexOf('function keys.reservation(')).toBeLessThan(
      probe.body.indexOf('local function call(KEYS, ARGV'),
    );
    expect(probe.body).toContain("callback = call, flags = { 'allow-oom' }");
  });

  test('is named after its code, and so are its functions', () => {
    const library = libraryWith("'a'");
    const { name, functionNames } = library;
    expect(name).toMatch(/^holdfast_[0-9a-f]{12}$/);
    expect(libraryCode(library).startsWith(`#!lua name=${name}\n`)).toBe(true);
    expect(functionNames.get('probe')).toBe(name.replace('_', '_probe_'));
    expect(libraryWith("'a'").name).toBe(name);
    expect(libraryWith("'b'").name).not.toBe(name);
  });
});

/** The status words in a script's header: the first word of each alternative. */
function declaredWords(own: string): string[] {
  const words = (headerField(own, 'RETURNS') ?? '')
    .split(/\s\|\s/)
    .map((alternative) => alternative.trim().split(' ')[0] as string);
  return words.filter((word) => /^[A-Z][A-Z0-9_]+$/.test(word));
}

/** The code contains a word either as its own literal, or as the start of a literal that it concatenates. */
function says(literal: string, word: string): boolean {
  return literal === word || (literal.endsWith('_') && word.startsWith(literal));
}

/** The words at the start of replies in the code, as far as they are literals. */
function answeredWords(text: string): string[] {
  const plain = [
    ...text.matchAll(/(?:return (?:nil, )?|reply(?:, \w+)* = |deny\()\{ '([A-Z][A-Z0-9_]+)'/g),
  ].map((match) => match[1]);
  const either = [...text.matchAll(/return \{ [^'}]+ == '\w+' and '([A-Z0-9_]+)' or '([A-Z0-9_]+)'/g)];
  return [...plain, ...either.flatMap((match) => [match[1], match[2]])] as string[];
}

describe.each(scriptTexts())('the header of $name', ({ own, included }) => {
  test('declares every word that the script can reply with', () => {
    const refusals = included
      .map(code)
      .flatMap((text) => [...text.matchAll(/return nil, \{ '([A-Z0-9_]+)'/g)].map((match) => match[1]));
    const answered = [...answeredWords(code(own)), ...refusals] as string[];
    const declared = declaredWords(own);
    expect(answered.filter((literal) => !declared.some((word) => says(literal, word)))).toEqual([]);
  });

  test('declares no word that the script never replies with', () => {
    const literals = [own, ...included].flatMap((text) =>
      [...code(text).matchAll(/'([A-Z][A-Z0-9_]+)'/g)].map((match) => match[1] as string),
    );
    expect(declaredWords(own).filter((word) => !literals.some((literal) => says(literal, word)))).toEqual([]);
  });

  test('names as many keys and arguments as the code reads', () => {
    const { keys, args } = parseHeader(/^-- (\w+): /m.exec(own)?.[1] as string, own);
    const read = (kind: string): number[] =>
      [...code(own).matchAll(new RegExp(`${kind}\\[(\\d+)\\]`, 'g'))].map((match) => Number(match[1]));
    expect(new Set(read('KEYS'))).toEqual(new Set(keys.map((_, index) => index + 1)));
    expect(new Set(read('ARGV'))).toEqual(new Set(args.map((_, index) => index + 1)));
    expect(included.filter((text) => /\b(KEYS|ARGV)\b/.test(code(text)))).toEqual([]);
  });
});

test('scripts that free memory may run on a full Redis, those that need more may not, and those that read may not write', () => {
  const flags = Object.fromEntries([...LIBRARY.scripts].map(([name, script]) => [name, script.flags.join()]));
  expect(flags).toMatchObject({
    commit: 'allow-oom',
    release: 'allow-oom',
    expire: 'allow-oom',
    get_reservation: 'allow-oom',
    list_reservations: 'allow-oom',
    reserve: '',
    extend: '',
    balances: 'no-writes',
  });
});
