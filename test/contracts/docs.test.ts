import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { DEFAULT_PERMISSIONS, PERMISSION_WORDS, PERMISSIONS } from '../../src/auth/permissions.js';
import { CONFIG_VARIABLES } from '../../src/config/variables.js';
import * as keyspace from '../../src/redis/keyspace.js';

const root = new URL('../../', import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, root), 'utf8');

/** Every page that describes the present. The changelog and recorded benchmarks tell of the past. */
const PAGES = [
  'README.md',
  'bench/README.md',
  ...readdirSync(new URL('docs/', root), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md'))
    .map((file) => `docs/${file}`)
    .sort(),
];

/** The part of a page between `<!-- name -->` and `<!-- /name -->`. */
const part = (page: string, name: string): string =>
  new RegExp(`<!-- ${name} -->([^]*?)<!-- /${name} -->`).exec(read(page))?.[1] ?? '';

test('the configuration table is what src/config reads, with its defaults and its words', () => {
  const rows = [
    ...part('docs/configuration.md', 'configuration').matchAll(/^\| `(\w+)` \| (.+?) \| (.+) \|$/gm),
  ];
  const shown = (fallback: string): string =>
    fallback.startsWith('(') ? fallback.slice(1, -1) : `\`${fallback}\``;
  expect(rows.map(([, name, fallback, doc]) => [name, fallback, doc])).toEqual(
    CONFIG_VARIABLES.map(({ name, fallback, doc }) => [name, shown(fallback), doc]),
  );
});

test('the table of permissions is the list of the code, with its words and defaults', () => {
  const rows = [
    ...part('docs/api-keys.md', 'permissions').matchAll(/^\| `([a-z:]+)` \| (.+?) \| (yes|no) \|$/gm),
  ];
  expect(rows.map(([, name, words, isDefault]) => [name, words, isDefault])).toEqual(
    PERMISSIONS.map((name) => [
      name,
      PERMISSION_WORDS[name],
      DEFAULT_PERMISSIONS.includes(name) ? 'yes' : 'no',
    ]),
  );
});

test('docs/performance.md shows the summary of the newest report', () => {
  const { status, stderr } = spawnSync(
    process.execPath,
    [fileURLToPath(new URL('bench/summary.mjs', root))],
    { encoding: 'utf8' },
  );
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
});

describe.each(PAGES)('%s', (page) => {
  const text = read(page);
  const base = new URL(page, root);
  const prose = text.replaceAll(/```[^]*?```/g, '');

  test('links only to files and headings that exist', () => {
    const links = [...prose.matchAll(/\]\((?!https?:)([^)]+)\)/g)].map(([, link]) => link as string);
    expect(links.filter((link) => !isReachable(new URL(link, base)))).toEqual([]);
  });

  test('names only files and folders of the repository that exist', () => {
    const paths = [
      ...text.matchAll(/(?<![\w./-])(?:src|lua|test|bench|scripts|deploy|docs|\.ci)\/[\w./-]*/g),
    ].map(([path]) => path.replace(/\.$/, ''));
    // The page on compatibility names tests as `lua/reserve`; compatibility.test.ts checks those.
    const isTest = (path: string): boolean => existsSync(new URL(`test/${path}.test.ts`, root));
    expect(paths.filter((path) => !existsSync(new URL(path, root)) && !isTest(path))).toEqual([]);
  });

  test('names only npm scripts that exist', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const named = [...text.matchAll(/\bnpm (?:run (?:--silent )?([\w:-]+)|(test)\b)/g)].map(
      ([, script, other]) => (script ?? other) as string,
    );
    expect(named.filter((name) => scripts[name] === undefined)).toEqual([]);
  });
});

test('docs/architecture.md lists the layers in the order that lint enforces', () => {
  const [, layers = ''] = /const LAYERS = \[([^\]]*)\]/.exec(read('eslint.config.js')) ?? [];
  const enforced = [...layers.matchAll(/'(\w+)'/g)].map(([, name]) => name);
  const listed = [...part('docs/architecture.md', 'layers').matchAll(/^\| `src\/(\w+)` \|/gm)];
  expect(listed.map(([, name]) => name).reverse()).toEqual(enforced);
});

test('the README links to every page of docs', () => {
  const linked = [...read('README.md').matchAll(/\]\((docs\/[^)#]+)/g)].map(([, link]) => link);
  expect(PAGES.filter((page) => /^docs\/[^/]+$/.test(page) && !linked.includes(page))).toEqual([]);
});

function isReachable(link: URL): boolean {
  const anchor = link.hash.slice(1);
  const file = new URL(link.pathname, link);
  return existsSync(file) && (anchor === '' || headingAnchors(readFileSync(file, 'utf8')).includes(anchor));
}

/** The anchors that GitHub gives to the headings of a page. */
function headingAnchors(text: string): string[] {
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
    (heading as string)
      .toLowerCase()
      .replaceAll(/[^\w\s-]/g, '')
      .replaceAll(' ', '-'),
  );
}

test('the data model in docs/architecture.md has every key, and no other', () => {
  const builders = Object.entries({ ...keyspace, ...keyspace.idempotencyKey }).filter(
    ([name, build]) =>
      typeof build === 'function' && (name.endsWith('Key') || name in keyspace.idempotencyKey),
  ) as [string, (...words: string[]) => string][];
  const templates = builders.map(([, build]) => build('{pNN}', ...parametersOf(build)));
  const listed = [...read('docs/architecture.md').matchAll(/^\| `(\{[^`]+)` \|/gm)].map(([, key]) =>
    (key as string).replaceAll('\\|', '|'),
  );
  expect(listed.sort()).toEqual(templates.sort());
});

/** The parameters of a key's builder behind the tag, as the page writes them: `<reservation_id>`. */
function parametersOf(build: (...words: string[]) => string): string[] {
  const [, names = ''] = /^\(?([^)=]*)\)?\s*=>/.exec(build.toString()) ?? [];
  return names
    .split(',')
    .slice(1)
    .map((name) => `<${name.trim().replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}>`);
}
