import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { loadSpec, specAbsence, type Spec } from '../support/spec/index.js';
import { ROWS } from './operations/index.js';
import { NOT_SERVED } from './operations/not-served.js';

const page = readFileSync(new URL('../../docs/compatibility.md', import.meta.url), 'utf8');

/** A test file as the page names it, `http/reserve`, or the name of a test in the file before it, “is refused as a whole”. */
const REFERENCE = /`([a-z-]+\/[a-z-]+)`|“([^”]+)”/g;

interface Reference {
  readonly file: string;
  readonly names: readonly string[];
}

function part(name: string): string {
  const found = new RegExp(`<!-- ${name} -->([^]*?)<!-- /${name} -->`).exec(page)?.[1];
  if (found === undefined) {
    throw new Error(`the page has no part ${name}`);
  }
  return found;
}

/** The cells of each row of the tables in a text, without heads. */
function rowsOf(text: string): string[][] {
  const lines = text.split('\n');
  return lines
    .filter(
      (line, index) =>
        line.startsWith('| ') && !line.startsWith('| ---') && lines[index + 1]?.startsWith('| ---') !== true,
    )
    .map((line) => line.slice(2, -2).split(' | '));
}

function referencesIn(text: string): Reference[] {
  const references: { file: string; names: string[] }[] = [];
  for (const [, file, name] of text.matchAll(REFERENCE)) {
    if (file !== undefined) {
      references.push({ file, names: [] });
    } else if (references.length > 0) {
      references.at(-1)?.names.push(name as string);
    }
  }
  return references;
}

/** The titles in a test file, as they are written there: a test of many cases has its title with placeholders. */
function titlesOf(file: string): Set<string> {
  const source = readFileSync(new URL(`../${file}.test.ts`, import.meta.url), 'utf8');
  return new Set(
    [...source.matchAll(/\(\s*(?:'((?:[^'\\]|\\.)+)'|"((?:[^"\\]|\\.)+)"|`([^`$]+))/g)].map(([, a, b, c]) =>
      (a ?? b ?? c ?? '').replaceAll(/\\(.)/g, '$1'),
    ),
  );
}

const RULES = rowsOf(part('rules'));
const OPERATIONS = rowsOf(part('operations'));
const NAMED = [
  ...RULES.map((cells) => cells.at(-1) as string),
  ...OPERATIONS.filter((cells) => cells[3] === 'yes').map((cells) => cells[4] as string),
];

describe('what the page on compatibility refers to', () => {
  test('every test file exists', () => {
    const files = [...new Set(NAMED.flatMap(referencesIn).map(({ file }) => file))];
    expect(files.length).toBeGreaterThan(20);
    expect(files.filter((file) => !existsSync(new URL(`../${file}.test.ts`, import.meta.url)))).toEqual([]);
  });

  test('every test that it quotes is in its file', () => {
    const missing = NAMED.flatMap(referencesIn).flatMap(({ file, names }) => {
      const titles = titlesOf(file);
      return names.filter((name) => !titles.has(name)).map((name) => `${file}: ${name}`);
    });
    expect(missing).toEqual([]);
  });

  test('every rule has its place in the documents, and a test or the word Open', () => {
    const bare = RULES.filter(([rule, place, shown]) => {
      const open = shown?.startsWith('**Open**: ') === true;
      return (
        rule === '' ||
        place === '' ||
        (!open && !referencesIn(shown ?? '').some(({ names }) => names.length > 0))
      );
    });
    expect(RULES.length).toBeGreaterThan(80);
    expect(RULES.filter((cells) => cells.length !== 3)).toEqual([]);
    expect(bare).toEqual([]);
  });
});

describe("the page's table of operations", () => {
  const idOf = (cells: string[]): string => (cells[2] ?? '').replaceAll('`', '');

  test('has every operation that has a row in the contract, as served, and no other as such', () => {
    expect(
      OPERATIONS.filter((cells) => cells[3] === 'yes')
        .map(idOf)
        .sort(),
    ).toEqual(ROWS.map(({ id }) => id).sort());
  });

  test('has every operation that is listed as not served, with the reason', () => {
    const rows = OPERATIONS.filter((cells) => cells[3] === 'no');
    expect(rows.map(idOf).sort()).toEqual(Object.values(NOT_SERVED).flat().sort());
    expect(
      OPERATIONS.filter(
        (cells) => cells.length !== 5 || cells[4] === '' || !['yes', 'no'].includes(cells[3] as string),
      ),
    ).toEqual([]);
  });

  test('names a test for every operation that is served', () => {
    expect(
      OPERATIONS.filter((cells) => cells[3] === 'yes' && referencesIn(cells[4] as string).length === 0),
    ).toEqual([]);
  });

  const absence = specAbsence();
  const withSpec = absence === undefined ? test : test.skip;

  withSpec(
    `has the methods and paths of the protocol's documents${absence === undefined ? '' : ` (skipped: ${absence})`}`,
    () => {
      const found = OPERATIONS.map(([method, path, id]) => `${method} ${path} ${id}`);
      expect(found.sort()).toEqual(
        (loadSpec() as Spec).operations
          .map(({ method, template, id }) => `${method} \`${template}\` \`${id}\``)
          .sort(),
      );
    },
  );
});
