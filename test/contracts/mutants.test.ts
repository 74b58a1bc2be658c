import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { MUTATIONS } from '../../scripts/mutants/list.mjs';
import { mutate } from '../../scripts/mutants/mutate.mjs';

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
    const paths = tests.map((name) => (name.includes('/') ? `test/${name}` : `test/lua/${name}`));
    expect(paths.filter((path) => !existsSync(join(ROOT, `${path}.test.ts`)))).toEqual([]);
  });
});

test('a change of what is not there, or there twice, is an error', () => {
  expect(() => mutate('a b a', { what: 'w', find: 'c', put: '' })).toThrow('exactly once');
  expect(() => mutate('a b a', { what: 'w', find: 'a', put: '' })).toThrow('exactly once');
  expect(mutate('a b a', { what: 'w', find: 'b', put: '$&' })).toBe('a $& a');
});
