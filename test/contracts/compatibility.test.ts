import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { sep } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { type Declaration, declarationsIn } from '../compatibility/declarations.js';
import { EXTENSION_RULES } from '../compatibility/extension-rules.js';
import { GOVERNANCE_RULES } from '../compatibility/governance-rules.js';
import { OPERATIONS, SERVED, type Operation } from '../compatibility/operations.js';
import { withTables } from '../compatibility/page.js';
import type { Rules } from '../compatibility/rule.js';
import { RUNTIME_RULES } from '../compatibility/runtime-rules.js';
import { loadSpec, specAbsence, type Spec } from '../support/spec/index.js';
import { ROWS } from './operations/index.js';

const TESTS = new URL('../', import.meta.url);
const PAGE = new URL('../../docs/reference/protocol.md', import.meta.url);

const RULES: Rules = { ...RUNTIME_RULES, ...GOVERNANCE_RULES, ...EXTENSION_RULES };
const operations = Object.entries<Operation>(OPERATIONS);

const declarations: readonly Declaration[] = readdirSync(TESTS, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.test.ts'))
  .map((path) => path.split(sep).join('/').slice(0, -'.test.ts'.length))
  // The strings in this file only look like calls of `shows`.
  .filter((file) => file !== 'contracts/compatibility')
  .sort()
  .flatMap((file) => declarationsIn(file, readFileSync(new URL(`${file}.test.ts`, TESTS), 'utf8')));
const shown = new Set(declarations.map(({ shown: one }) => one));

test('docs/reference/protocol.md has the tables that follow from the tests; `npm run compatibility` writes them', () => {
  const page = readFileSync(PAGE, 'utf8');
  const current = withTables(page, declarations);
  if (process.env['WRITE_COMPATIBILITY'] === '1') {
    writeFileSync(PAGE, current);
  } else {
    expect(page).toBe(current);
  }
});

describe('every rule of the protocol', () => {
  test('has its words, its place in the documents, and a test that shows it', () => {
    const rules = Object.entries(RULES);
    expect(rules.length).toBe(
      [RUNTIME_RULES, GOVERNANCE_RULES, EXTENSION_RULES].flatMap((some) => Object.keys(some)).length,
    );
    expect(rules.length).toBeGreaterThan(160);
    expect(rules.filter(([, { rule, place }]) => rule === '' || place === '')).toEqual([]);
    expect(rules.map(([id]) => id).filter((id) => !shown.has(id))).toEqual([]);
  });
});

describe('every operation of the protocol', () => {
  test('is served exactly when the contract has a row for it, and otherwise says why not', () => {
    expect([...SERVED].sort()).toEqual(ROWS.map(({ id }) => id).sort());
    expect(operations.filter(([, { whyNot }]) => whyNot === '')).toEqual([]);
  });

  test('has a test that shows it, if it is served', () => {
    expect(SERVED.filter((id) => !shown.has(id))).toEqual([]);
  });

  const absence = specAbsence();
  const withSpec = absence === undefined ? test : test.skip;

  withSpec(
    `is listed with its method and path${absence === undefined ? '' : ` (skipped: ${absence})`}`,
    () => {
      expect(operations.map(([id, { method, path }]) => `${method} ${path} ${id}`).sort()).toEqual(
        (loadSpec() as Spec).operations
          .map(({ method, template, id }) => `${method} ${template} ${id}`)
          .sort(),
      );
    },
  );
});

describe('a declaration', () => {
  const titles = (text: string): string[] => declarationsIn('probe', text).map(({ title }) => title);

  test('has the title of its test, and that of the group where the test is one of a table', () => {
    expect(titles("describe('a', () => { test('b', () => { shows('replay'); }); });")).toEqual(['b']);
    expect(titles("describe('a', () => { test.each([1])('%i', () => { shows('replay'); }); });")).toEqual([
      'a › %i',
    ]);
    expect(titles('withSpec(`c${why}`, () => { shows("replay", "caps"); });')).toEqual(['c', 'c']);
  });

  test.each([
    ['outside of a test', "shows('replay');"],
    ['in a group', "describe('a', () => { shows('replay'); });"],
    ['in a hook', "beforeEach(() => { shows('replay'); });"],
    ['after another statement', "test('b', () => { const c = 1; shows('replay'); });"],
    ['that depends on something', "test('b', () => { if (c) { shows('replay'); } });"],
    ['in a test that is skipped', "test.skip('b', () => { shows('replay'); });"],
    ['in a table that is skipped', "test.skip.each([1])('b', () => { shows('replay'); });"],
    ['in a test that should fail', "test.failing('b', () => { shows('replay'); });"],
    ['in a group that is skipped', "describe.skip('a', () => { test('b', () => { shows('replay'); }); });"],
    ['in a function that may never be called', "later(() => { test('b', () => { shows('replay'); }); });"],
    ['of something other than a literal', "test('b', () => { shows(rule); });"],
  ])('%s is refused', (_where, text) => {
    expect(() => titles(text)).toThrow(/^probe\.test\.ts:1: /);
  });
});
