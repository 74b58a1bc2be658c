import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

interface Finding {
  readonly ruleId: string;
  readonly line: number;
}

const RULES = ['import-x/no-extraneous-dependencies', 'no-restricted-syntax', 'no-restricted-imports'];

const LINT = `
  import { ESLint } from 'eslint';
  const { file, text } = JSON.parse(process.argv[1]);
  const [{ messages }] = await new ESLint().lintText(text, { filePath: file });
  process.stdout.write(JSON.stringify(messages));`;

/** What the project's lint would say about dependencies if these lines stood in `file`: the rules by line. */
function lint(file: string, lines: readonly string[]): Record<string, string[]> {
  const question = JSON.stringify({ file, text: `${lines.join('\n')}\n` });
  // Where CI is set, typescript-eslint takes the file from the disk instead of this text.
  const env = { ...process.env, CI: '', TSESTREE_SINGLE_RUN: 'false' };
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--input-type=module', '-e', LINT, question],
    { cwd: ROOT, env, encoding: 'utf8' },
  );
  if (status !== 0) {
    throw new Error(stderr);
  }
  const messages = JSON.parse(stdout) as Finding[];
  const found = messages.filter(({ ruleId }) => RULES.includes(ruleId));
  return Object.fromEntries(
    lines.map((line, index) => [
      line,
      found.filter((one) => one.line === index + 1).map(({ ruleId }) => ruleId),
    ]),
  );
}

test('lint refuses in src each way to load a package that is not a runtime dependency, and no other', () => {
  const refused = [
    "import { parse } from 'yaml';",
    "import type { Options } from 'ajv';",
    "export { default as denque } from 'denque';",
    "import '@nestjs/testing';",
    "export const later = (): Promise<unknown> => import('fast-check');",
    "const require = createRequire(import.meta.url); require('standardwebhooks');",
    "createRequire(import.meta.url)('undici');",
  ];
  const allowed = [
    "import { createRequire } from 'node:module';",
    "import { Agent } from 'undici';",
    "import calculateSlot from 'cluster-key-slot';",
    "import './client.js';",
  ];
  const found = lint('src/redis/keyspace.ts', [...allowed, ...refused]);
  expect(
    Object.entries(found)
      .filter(([, rules]) => rules.length > 0)
      .map(([line]) => line),
  ).toEqual(refused);
});

test.each([
  ['src/redis/keyspace.ts', "import { a } from '../http/index.js';", "import { a } from '../wire/index.js';"],
  ['src/ledger/amount.ts', "import { a } from '../wire/index.js';", "import { a } from './balance.js';"],
  [
    'src/expiry/expiry.module.ts',
    "import { a } from '../app/app.module.js';",
    "import { a } from '../http/index.js';",
  ],
  [
    'src/expiry/expiry.service.ts',
    "import { a } from '../http/index.js';",
    "import { a } from '../wire/index.js';",
  ],
  [
    'src/expiry/expiry.service.ts',
    "import { a } from '../redis/queries.js';",
    "import { a } from '../redis/index.js';",
  ],
])('lint refuses an import upwards, past a barrel, or of HTTP by a service: %s', (file, refused, allowed) => {
  expect(lint(file, [allowed, refused])).toEqual({
    [allowed]: [],
    [refused]: expect.arrayContaining(['no-restricted-imports']),
  });
});
