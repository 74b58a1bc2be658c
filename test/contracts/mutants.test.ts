import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { MUTATIONS } from '../../scripts/mutants/list.mjs';
import { mutate } from '../../scripts/mutants/mutate.mjs';
import { pageText, testsOf } from '../../scripts/mutants/page.mjs';

const ROOT = join(import.meta.dirname, '../..');
const page = readFileSync(join(ROOT, 'docs/reference/mutants.md'), 'utf8');

describe.each(Object.entries(MUTATIONS))('the mutants of %s', (file, mutations) => {
  const text = readFileSync(join(ROOT, file.endsWith('.lua') ? 'lua' : 'src', file), 'utf8');

  test.each(mutations.map((mutation) => [mutation.what, mutation] as const))(
    '%s: changes the script as it is now, and has its result in docs/reference/mutants.md',
    (what, mutation) => {
      expect(mutate(text, mutation)).not.toBe(text);
      expect(page).toContain(`| ${what} |`);
    },
  );

  test('are tried on tests that exist, and those of services on at least one', () => {
    const known = testsOf(page, file);
    const named = mutations.map((mutation) => mutation.tests ?? known);
    expect(named.flat().filter((name) => !existsSync(join(ROOT, `test/${name}.test.ts`)))).toEqual([]);
    expect(file.endsWith('.lua') || named.every((tests) => tests.length > 0)).toBe(true);
  });
});

test('a change of what is not there, or there twice, is an error', () => {
  expect(() => mutate('a b a', { what: 'w', find: 'c', put: '' })).toThrow('exactly once');
  expect(() => mutate('a b a', { what: 'w', find: 'a', put: '' })).toThrow('exactly once');
  expect(mutate('a b a', { what: 'w', find: 'b', put: '$&' })).toBe('a $& a');
});

test('a part of the mutants is recorded among the others, and those that are gone from the list are not', () => {
  const mutation = { what: 'w', find: 'f', put: 'p' };
  const list = {
    'a.lua': [mutation],
    'b.ts': [mutation],
  };
  const result = (file: string, noticed?: string) => ({ mutant: { ...mutation, file, tests: [] }, noticed });
  const gone = { mutant: { ...result('a.lua').mutant, what: 'gone' }, noticed: 'a test' };
  const whole = pageText([result('a.lua', 'one test'), gone, result('b.ts')], list, '');
  expect(whole).toContain('Of 3 changes, the tests noticed 2.');
  const part = pageText([result('b.ts', 'another')], list, whole);
  expect(part).toContain('Of 2 changes, the tests noticed 2.');
  expect(part.split('\n').filter((line) => line.startsWith('| w |'))).toEqual([
    '| w | one test |',
    '| w | another |',
  ]);
  expect(part).not.toContain('gone');
  const both = pageText([result('a.lua', '`lua/one` “it” and'), result('b.ts', 'the time limit')], list, '');
  expect([testsOf(both, 'a.lua'), testsOf(both, 'b.ts'), testsOf(both, 'c.ts')]).toEqual([
    ['lua/one'],
    [],
    [],
  ]);
});
