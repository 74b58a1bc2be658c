import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { allParts, readLua, scriptPaths } from '../../scripts/lua/files.js';
import { libraryCode, libraryOf, scriptOf } from '../../scripts/lua/library.js';
import { LIBRARY } from '../../src/redis/script-library.js';
import { ScriptRegistry } from '../../src/redis/scripts.js';
import { useLedger } from '../support/use-ledger.js';

const ROOT = new URL('../../', import.meta.url);
const STEP =
  /In \[[^\]]+\]\((\S+)\), put `-- ` before the line that begins with `([^`]+)`, and run `npm test -- (\S+)`/;

const newLedger = useLedger();
const readme = readFileSync(new URL('README.md', ROOT), 'utf8');
const steps = readme.split('## Find your way')[1]?.split('\n## ')[0] ?? '';

test('each step of the README names what is there', () => {
  const paths = [...steps.matchAll(/\]\(([^)#]+)/g)].map(([, path = '']) => path);
  expect(paths.length).toBeGreaterThan(5);
  expect(paths.filter((path) => !existsSync(new URL(path, ROOT)))).toEqual([]);
});

test('its last step breaks a rule that the tests it names check, and nothing else', async () => {
  const [, file = '', begins = '', suite = ''] = STEP.exec(steps) ?? [];
  expect(readFileSync(new URL(suite, ROOT), 'utf8')).toContain("['BUDGET_EXCEEDED");
  const text = readFileSync(new URL(file, ROOT), 'utf8');
  const lines = text.split('\n').filter((line) => line.trimStart().startsWith(begins));
  expect(lines).toHaveLength(1);
  const broken = text.replace(lines[0] as string, `-- ${lines[0]}`);
  const parts = new Map([...allParts(), ['admission', broken]]);
  const sources = [...scriptPaths().values()].map((path) => scriptOf(path, readLua(path), parts));
  const library = libraryOf(sources, parts);
  const scripts = new Map(
    [...LIBRARY.scripts].map(([name, script]) => [
      name,
      { ...script, functionName: library.functionNames.get(name) as string },
    ]),
  );
  const whole = await newLedger();
  const { redis } = whole;
  const ledger = whole.over(
    redis,
    new ScriptRegistry(redis, { ...library, code: libraryCode(library), scripts }),
  );
  await ledger.makeTenant();
  await ledger.makeBudget({ allocated: 5 });
  expect((await whole.reserve({ amount: 6 }))[0]).toBe('BUDGET_EXCEEDED');
  expect((await ledger.reserve({ amount: 5 }))[0]).toBe('ALLOW');
  expect((await ledger.reserve({ amount: 6 }))[0]).toBe('ALLOW');
});
