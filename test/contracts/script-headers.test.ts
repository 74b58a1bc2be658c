import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { scriptPaths } from '../../src/redis/script-files.js';
import { headerField, parseHeader } from '../../src/redis/script-header.js';
import { assemble, libraryOf, readLibrary, type ScriptLibrary } from '../../src/redis/script-source.js';
import { SCRIPT_SIGNATURES, type ScriptSignature } from '../../src/redis/script-types.js';
import { code, scriptTexts } from '../support/script-text.js';

const HEADER =
  '#!lua\n-- probe: says nothing.\n-- KEYS[1] a\n-- ARGV[1] b\n-- RETURNS OK\n-- BOUND one key\n-- EMITS nothing\n';

function withSignature(
  name: keyof typeof SCRIPT_SIGNATURES,
  change: Partial<ScriptSignature>,
): Record<string, ScriptSignature> {
  return { ...SCRIPT_SIGNATURES, [name]: { ...SCRIPT_SIGNATURES[name], ...change } };
}

describe('the scripts are refused at boot', () => {
  test('when a header and its signature differ in keys, arguments, their rest, flags, or replies', () => {
    const { expire } = SCRIPT_SIGNATURES;
    expect(() => readLibrary(withSignature('expire', { keys: ['hold'] }))).toThrow(
      'lua/expiry/expire.lua and its signature differ',
    );
    expect(() => readLibrary(withSignature('expire', { args: [...expire.args].reverse() }))).toThrow(
      'differ',
    );
    expect(() => readLibrary(withSignature('expire', { args: expire.args.slice(1) }))).toThrow('differ');
    expect(() => readLibrary(withSignature('expire', { rest: true }))).toThrow('differ');
    expect(() => readLibrary(withSignature('expire', { flags: [] }))).toThrow('differ');
    expect(() => readLibrary(withSignature('reserve', { flags: ['allow-oom'] }))).toThrow('differ');
    expect(() => readLibrary(withSignature('expire', { returns: 'NOT_FOUND' }))).toThrow('differ');
  });

  test('when a signature has no script, or a script no signature', () => {
    expect(() => readLibrary({ ...SCRIPT_SIGNATURES, settle_all: SCRIPT_SIGNATURES.expire })).toThrow(
      'signatures without a script: settle_all',
    );
    const { expire: _, ...others } = SCRIPT_SIGNATURES;
    expect(() => readLibrary(others)).toThrow('lua/expiry/expire.lua has no signature');
  });

  test('when two folders hold a script of one name', () => {
    const lua = mkdtempSync(join(tmpdir(), 'lua-'));
    for (const folder of ['ledger', 'lib', 'webhooks']) {
      mkdirSync(join(lua, folder));
      writeFileSync(join(lua, folder, 'extend.lua'), HEADER);
    }
    expect(() => scriptPaths(pathToFileURL(`${lua}/`))).toThrow(
      'lua/ledger/extend.lua and lua/webhooks/extend.lua are scripts of one name',
    );
    rmSync(join(lua, 'webhooks'), { recursive: true });
    expect([...scriptPaths(pathToFileURL(`${lua}/`))]).toEqual([['extend', 'ledger/extend.lua']]);
    rmSync(lua, { recursive: true });
  });

  test('when an include does not exist, or does not name what is used of it', () => {
    const including = (include: string) => () =>
      assemble('probe', `${HEADER}-- @include ${include}\nreturn 1\n`);
    expect(including('no_such_part: anything')).toThrow('no_such_part.lua');
    expect(including('keys')).toThrow("'-- @include keys' is not of the form '-- @include part: name, name'");
    expect(including('keys: ttl_index_key,')).toThrow('not of the form');
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
  });
});

test('an assembled script has its shebang first, each part once, and no comments', () => {
  const source = assemble(
    'probe',
    `#!lua flags=allow-oom\n${HEADER.slice(6)}-- @include settle: open_hold\n-- @include expiry: reclaim\n-- @include keys: reservation_key\nreturn reclaim(open_hold, reservation_key)\n`,
  ).source();
  expect(source.startsWith('#!lua flags=allow-oom\n')).toBe(true);
  expect(source.match(/local function reservation_key\(/g)).toHaveLength(1);
  expect(source.indexOf('function reservation_key')).toBeLessThan(source.indexOf('function reclaim'));
  expect(source).not.toMatch(/^\s*--/m);
});

test('a part exports what others use, and keeps everything else private', () => {
  const text = (names: string): string =>
    assemble('probe', `${HEADER}-- @include int64: ${names}\nreturn i64_add('1', '2')\n`).source();
  expect(text('i64_add')).toMatch(/^local i64_add = \(function\(\)$/m);
  expect(text('i64_sub, i64_add')).toMatch(/^local i64_add, i64_sub = \(function\(\)$/m);
});

describe('the library of the scripts', () => {
  const text = (answer: string): string =>
    `#!lua flags=allow-oom\n${HEADER.slice(6)}-- @include settle: open_hold\n-- @include keys: reservation_key\nreturn { open_hold, reservation_key(${answer}) }\n`;
  const libraryWith = (answer: string): ScriptLibrary =>
    libraryOf(new Map([['probe', assemble('probe', text(answer))]]));

  test('has each part once, before the functions that use it, with their flags', () => {
    const { code } = readLibrary();
    expect(code.match(/local function reservation_key\(/g)).toHaveLength(1);
    expect(code.match(/redis\.register_function\{/g)).toHaveLength(scriptPaths().size + 4);
    const probe = libraryWith("'a'");
    expect(probe.code.indexOf('local function reservation_key(')).toBeLessThan(
      probe.code.indexOf('local function call(KEYS, ARGV'),
    );
    expect(probe.code).toContain("callback = call, flags = { 'allow-oom' }");
  });

  test('is named after its code, and so are its functions', () => {
    const { name, code, scripts } = libraryWith("'a'");
    expect(name).toMatch(/^holdfast_[0-9a-f]{12}$/);
    expect(code.startsWith(`#!lua name=${name}\n`)).toBe(true);
    expect(scripts.get('probe')?.functionName).toBe(name.replace('_', '_probe_'));
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
  const flags = Object.fromEntries(
    Object.entries(SCRIPT_SIGNATURES).map(([name, signature]) => [name, signature.flags.join()]),
  );
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
