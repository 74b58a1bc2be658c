import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { MUTATIONS } from '../../scripts/mutants/list.mjs';
import { mutate } from '../../scripts/mutants/mutate.mjs';
import { pageText } from '../../scripts/mutants/page.mjs';

const ROOT = join(import.meta.dirname, '../..');
const page = readFileSync(join(ROOT, 'docs/reference/mutants.md'), 'utf8');

describe.each(Object.entries(MUTATIONS))('the mutants of %s', (file, { tests, mutations }) => {
  const text = readFileSync(join(ROOT, file.endsWith('.lua') ? 'lua' : 'src', file), 'utf8');

  test.each(mutations.map((mutation) => [mutation.what, mutation] as const))(
    '%s: changes the script as it is now, and has its result in docs/reference/mutants.md',
    (what, mutation) => {
      expect(mutate(text, mutation)).not.toBe(text);
      expect(page).toContain(`| ${what} |`);
    },
  );

  test('name tests that exist', () => {
    const named = [...tests, ...mutations.flatMap((mutation) => mutation.tests ?? [])];
    const paths = named.map((name) => (name.includes('/') ? `test/${name}` : `test/lua/${name}`));
    expect(paths.filter((path) => !existsSync(join(ROOT, `${path}.test.ts`)))).toEqual([]);
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
    'a.lua': { tests: [], mutations: [mutation] },
    'b.ts': { tests: [], mutations: [mutation] },
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
});
