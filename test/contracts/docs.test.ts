import { spawnSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { OPERATOR_ROLES, ROLE_WORDS } from '../../src/auth/operator-roles.js';
import { DEFAULT_PERMISSIONS, PERMISSION_WORDS, PERMISSIONS } from '../../src/auth/permissions.js';
import { CONFIG_VARIABLES } from '../../src/config/variables.js';
import * as keyspace from '../../src/redis/keyspace.js';
import { metaKey } from '../../src/redis/meta-key.js';
import { docBlocks } from '../support/doc-blocks.js';

const root = new URL('../../', import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, root), 'utf8');

/** The part of a page between `<!-- name -->` and `<!-- /name -->`. */
const part = (page: string, name: string): string =>
  new RegExp(`<!-- ${name} -->([^]*?)<!-- /${name} -->`).exec(read(page))?.[1] ?? '';

test('the configuration table is what src/config reads, with its defaults and its words', () => {
  const rows = [
    ...part('docs/configuration.md', 'configuration').matchAll(/^\| `(\w+)` \| (.+?) \| (.+) \| (.+) \|$/gm),
  ];
  const shown = (fallback: string): string =>
    fallback.startsWith('(') ? fallback.slice(1, -1) : `\`${fallback}\``;
  expect(rows.map(([, ...cells]) => cells)).toEqual(
    CONFIG_VARIABLES.map(({ name, fallback, doc, setBy }) => [name, shown(fallback), doc, setBy]),
  );
});

test('the table of roles is the list of the code, with its words', () => {
  const rows = [...part('docs/operators.md', 'roles').matchAll(/^\| `(\w+)` \| (.+?) \|$/gm)];
  expect(rows.map(([, role, words]) => [role, words])).toEqual(
    OPERATOR_ROLES.map((role) => [role, ROLE_WORDS[role]]),
  );
});

test('the table of permissions is the list of the code, with its words and defaults', () => {
  const rows = [
    ...part('docs/api-keys.md', 'permissions').matchAll(/^\| `([a-z_:]+)` \| (.+?) \| (yes|no) \|$/gm),
  ];
  expect(rows.map(([, name, words, isDefault]) => [name, words, isDefault])).toEqual(
    PERMISSIONS.map((name) => [
      name,
      PERMISSION_WORDS[name],
      DEFAULT_PERMISSIONS.includes(name) ? 'yes' : 'no',
    ]),
  );
});

test('README.md and docs/performance.md show the figures of the newest report', () => {
  const program = fileURLToPath(new URL('bench/summary.mjs', root));
  const { status, stderr } = spawnSync(process.execPath, [program], { encoding: 'utf8' });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
});

test('docs/architecture.md lists the layers in the order that lint enforces', () => {
  const [, layers = ''] = /const LAYERS = \[([^\]]*)\]/.exec(read('eslint.config.js')) ?? [];
  const enforced = [...layers.matchAll(/'(\w+)'/g)].map(([, name]) => name);
  const listed = [...part('docs/architecture.md', 'layers').matchAll(/^\| `src\/(\w+)` \|/gm)];
  expect(listed.map(([, name]) => name).reverse()).toEqual(enforced);
});

/** What the keys are hashes of whose names are hashed. */
const HASHED_NAMES: Record<string, string> = {
  reserve: 'r:<tenant_id>|<key>',
  commit: 'c:<tenant_id>|<reservation_id>|<key>',
  release: 'l:<tenant_id>|<reservation_id>|<key>',
};

test('commands ask the address in $URL, which the first session sets', () => {
  const pages = readdirSync(new URL('../../docs/', import.meta.url)).filter((name) => name.endsWith('.md'));
  const named = pages.flatMap((name) =>
    docBlocks(`docs/${name}`)
      .filter(({ code }) => /(?:localhost|127\.0\.0\.1):7878/.test(code))
      .map(({ file, line }) => `${file}:${line}`),
  );
  expect(named).toEqual([]);
});

test('the data model in docs/architecture.md has every key, and no other', () => {
  const builders = Object.entries({ ...keyspace, ...keyspace.idempotencyKey, metaKey }).filter(
    ([name, build]) =>
      typeof build === 'function' && (name.endsWith('Key') || name in keyspace.idempotencyKey),
  ) as [string, (...words: string[]) => string][];
  const templates = builders.map(([name, build]) => {
    const hashed = HASHED_NAMES[name];
    if (hashed === undefined) {
      return build('{pNN}', ...parametersOf(build));
    }
    const digest = hash('sha1', hashed).slice(0, 22);
    expect(build('{pNN}', ...parametersOf(build))).toBe(`{pNN}i:${digest}`);
    return `{pNN}i:<hash of ${hashed}>`;
  });
  const listed = [...read('docs/architecture.md').matchAll(/^\| `(\{[^`]+)` \|/gm)].map(([, key]) =>
    (key as string).replaceAll('\\|', '|'),
  );
  expect(listed.sort()).toEqual(templates.sort());
});

/** The parameters of a key's builder after the tag, as the page writes them: `<reservation_id>`. */
function parametersOf(build: (...words: string[]) => string): string[] {
  const [, names = ''] = /^\(?([^)=]*)\)?\s*=>/.exec(build.toString()) ?? [];
  return names
    .split(',')
    .slice(1)
    .map((name) => `<${name.trim().replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}>`);
}
