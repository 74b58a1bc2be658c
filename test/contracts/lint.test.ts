import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

interface Finding {
  readonly ruleId: string;
  readonly line: number;
}

interface Case {
  readonly what: string;
  readonly file: string;
  readonly allowed: readonly string[];
  readonly refused: readonly string[];
}

const RULES = [
  'holdfast/no-circles',
  'import-x/no-extraneous-dependencies',
  'no-restricted-syntax',
  'no-restricted-imports',
];

// None of these rules needs types, and loading all files with types takes a minute on a busy machine.
const LINT = `
  import { ESLint } from 'eslint';
  import tseslint from 'typescript-eslint';
  const eslint = new ESLint({ overrideConfig: [tseslint.configs.disableTypeChecked] });
  const answers = [];
  for (const { file, text } of JSON.parse(process.argv[1])) {
    const [{ messages }] = await eslint.lintText(text, { filePath: file });
    answers.push(messages);
  }
  process.stdout.write(JSON.stringify(answers));`;

const upwards = (file: string, refused: string, allowed: string): Case => ({
  what: 'an import upwards, past a barrel, or of HTTP by a service',
  file,
  allowed: [`import { a } from '${allowed}';`],
  refused: [`import { b } from '${refused}';`],
});

const CASES: readonly Case[] = [
  {
    what: 'each way to load a package in src that is not a runtime dependency',
    file: 'src/redis/keyspace.ts',
    allowed: [
      "import { createRequire } from 'node:module';",
      "import { Agent } from 'undici';",
      "import calculateSlot from 'cluster-key-slot';",
      "import './client.js';",
    ],
    refused: [
      "import { parse } from 'yaml';",
      "import type { Options } from 'ajv';",
      "export { default as denque } from 'denque';",
      "import '@nestjs/testing';",
      "export const later = (): Promise<unknown> => import('fast-check');",
      "const require = createRequire(import.meta.url); require('standardwebhooks');",
      "createRequire(import.meta.url)('undici');",
    ],
  },
  upwards('src/redis/keyspace.ts', '../http/index.js', '../wire/index.js'),
  upwards('src/ledger/amount.ts', '../wire/index.js', './scopes.js'),
  upwards('src/expiry/expiry.module.ts', '../app/app.module.js', '../http/index.js'),
  upwards('src/expiry/expiry.service.ts', '../http/index.js', '../wire/index.js'),
  upwards('src/expiry/expiry.service.ts', '../redis/queries.js', '../redis/index.js'),
  {
    what: 'an import that leads back, directly or over others, be it for a type',
    file: 'src/redis/keyspace.ts',
    allowed: ["import { StoreUnavailable } from './errors.js';", "export * from './missing.js';"],
    refused: [
      "import { tagOf } from './keyspace.js';",
      "import type { RedisService } from './redis.service.js';",
      "export { RedisClock } from './redis-clock.js';",
      "export * from './index.js';",
      "export const later = (): Promise<unknown> => import('./boot.js');",
    ],
  },
  {
    what: 'a constructor of more than six parameters',
    file: 'src/auth/rate-limits.ts',
    allowed: [
      'export class A { constructor(a: 1, b: 2, c: 3, d: 4, e: 5, f: 6) { super(a, b, c, d, e, f); } }',
    ],
    refused: ['export class B { constructor(a: 1, b: 2, c: 3, d: 4, e: 5, f: 6, g: 7) {} }'],
  },
  {
    what: 'a test that does not run, unless a condition says so',
    file: 'test/lua/int64.test.ts',
    allowed: [
      "import { describe, test } from '@jest/globals';",
      "const withSpec = process.env['SPEC'] === undefined ? test.skip : test;",
      "test.each([1])('h', () => undefined);",
    ],
    refused: [
      "test.only('a', () => undefined);",
      "describe.only.each([1])('b', () => undefined);",
      "test.skip('c', () => undefined);",
      "test.skip.each([1])('d', () => undefined);",
      "xtest('e', () => undefined);",
      "fdescribe('f', () => undefined);",
      "test.todo('g');",
    ],
  },
  {
    what: 'a client of one server in the suites for every topology',
    file: 'test/http/health.test.ts',
    allowed: ['export const store = connectTo(sharedStoreUrl());'],
    refused: ["export const client = new Redis('redis://127.0.0.1');"],
  },
  {
    what: 'nothing of that in the other suites',
    file: 'test/fault/outage.test.ts',
    allowed: ["export const client = new Redis('redis://127.0.0.1');"],
    refused: [],
  },
  ...['src/auth/rate-limits.ts', 'console/src/parts/time.tsx'].map((file) => ({
    what: "each way to read the host's clock",
    file,
    allowed: [
      'export const start: Date = new Date(0);',
      "export const parsed = Date.parse('2027-01-01');",
      'export const utc = Date.UTC(2027, 0);',
      'export const isDate = (value: unknown): boolean => value instanceof Date;',
      'export const since = performance.now();',
      'export const month = start.getMonth();',
    ],
    refused: [
      'export const a = Date.now();',
      'export const b = new Date();',
      'export const c = new Date().getTime();',
      'export const d = Date();',
      'export const e = globalThis.Date.now();',
      "export const f = new globalThis['Date']();",
      'export const { now } = Date;',
      'export const later = [1].map(Date.now);',
      "export const g = Date['now']();",
      'export const Clock = Date;',
      'export const h = new Date(...[]);',
      'export const i = Reflect.construct(Date, []);',
      'export const j = performance.timeOrigin + performance.now();',
      'export const { timeOrigin } = performance;',
      'export const k = process.hrtime.bigint();',
      "import { hrtime } from 'node:process';",
      'export const { hrtime: l } = process;',
      'export const m = Temporal.Now.instant();',
      'export class Later extends Date {}',
      'export const n = new Proxy(Date, {});',
    ],
  })),
];

const linesOf = ({ allowed, refused }: Case): string[] => [...allowed, ...refused];

/** Lints these lines as if they were in their files, and returns the refused ones. */
function lint(cases: readonly Case[]): string[][] {
  const questions = cases.map((one) => ({ file: one.file, text: `${linesOf(one).join('\n')}\n` }));
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--input-type=module', '-e', LINT, JSON.stringify(questions)],
    { cwd: ROOT, encoding: 'utf8' },
  );
  if (status !== 0) {
    throw new Error(stderr);
  }
  return (JSON.parse(stdout) as Finding[][]).map((messages, index) => {
    const found = messages.filter(({ ruleId }) => RULES.includes(ruleId)).map(({ line }) => line);
    return linesOf(cases[index] as Case).filter((_line, number) => found.includes(number + 1));
  });
}

test('lint refuses what a reader would not see, and nothing else', () => {
  const refused = lint(CASES);
  expect(CASES.map(({ what, file }, index) => ({ what, file, refused: refused[index] }))).toEqual(
    CASES.map(({ what, file, refused: expected }) => ({ what, file, refused: expected })),
  );
});
