import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { DEFAULT_PERMISSIONS, PERMISSION_WORDS, PERMISSIONS } from '../../src/auth/permissions.js';
import { CONFIG_VARIABLES } from '../../src/config/variables.js';

const root = new URL('../../', import.meta.url);
const readme = readFileSync(new URL('README.md', root), 'utf8');

test('the configuration table is what src/config reads, with its defaults and its words', () => {
  const table = /<!-- configuration -->([^]*?)<!-- \/configuration -->/.exec(readme)?.[1] ?? '';
  const rows = [...table.matchAll(/^\| `(\w+)` \| (.+?) \| (.+) \|$/gm)].map(([, name, fallback, doc]) => [
    name,
    fallback,
    doc,
  ]);
  const shown = (fallback: string): string =>
    fallback.startsWith('(') ? fallback.slice(1, -1) : `\`${fallback}\``;
  expect(rows).toEqual(CONFIG_VARIABLES.map(({ name, fallback, doc }) => [name, shown(fallback), doc]));
});

test('the table of permissions is the list of the code, with its words and defaults', () => {
  const table = /<!-- permissions -->([^]*?)<!-- \/permissions -->/.exec(readme)?.[1] ?? '';
  const rows = [...table.matchAll(/^\| `([a-z:]+)` \| (.+?) \| (yes|no) \|$/gm)].map(
    ([, name, words, isDefault]) => [name, words, isDefault],
  );
  expect(rows).toEqual(
    PERMISSIONS.map((name) => [
      name,
      PERMISSION_WORDS[name],
      DEFAULT_PERMISSIONS.includes(name) ? 'yes' : 'no',
    ]),
  );
});

test('every file that the documents link to exists', () => {
  const documents = [
    'README.md',
    'docs/compatibility.md',
    'docs/operations.md',
    'docs/adr/README.md',
    'bench/README.md',
  ];
  const missing = documents.flatMap((document) => {
    const base = new URL(document, root);
    const links = [...readFileSync(base, 'utf8').matchAll(/\]\((?!https?:)([^)#]+)/g)].map(
      ([, link]) => new URL(link as string, base),
    );
    return links.filter((link) => !existsSync(link)).map((link) => `${document}: ${link.pathname}`);
  });
  expect(missing).toEqual([]);
});

test('the summary of the benchmarks is that of the newest report', () => {
  const { status, stderr } = spawnSync(
    process.execPath,
    [fileURLToPath(new URL('bench/summary.mjs', root))],
    { encoding: 'utf8' },
  );
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
});

test('every npm script that the README names exists', () => {
  const { scripts } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as {
    scripts: Record<string, string>;
  };
  const named = new Set(
    [...readme.matchAll(/`?npm (?:run )?(up|test|check|bench|build|lint|typecheck|start)\b/g)].map(
      ([, name]) => name as string,
    ),
  );
  expect([...named].filter((name) => scripts[name] === undefined)).toEqual([]);
  expect(named.size).toBeGreaterThan(3);
});
