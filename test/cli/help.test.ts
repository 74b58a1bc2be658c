import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const { scripts } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as {
  scripts: Readonly<Record<string, string>>;
};
/** Each command that is a program of ours, by its name. */
const COMMANDS = Object.entries(scripts).flatMap(([name, command]) => {
  const file = /^node ((?:scripts|bench|examples)\/[\w/-]+\.mjs)/.exec(command)?.[1];
  return file === undefined || name.includes(':') || name === 'generate' || name === 'build'
    ? []
    : [[name, file] as const];
});

test('there are commands', () => {
  expect(COMMANDS.length).toBeGreaterThan(12);
});

test.each(COMMANDS)(
  'npm run %s -- --help says how it is used and how it ends, and does nothing',
  (name, file) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [file, '--help'], {
      cwd: ROOT,
      encoding: 'utf8',
    });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).toMatch(new RegExp(`^npm (?:run )?${name}\\b`));
    expect(stdout).toMatch(/[Ee]xit codes: 0|[Ee]xits with/);
  },
);
