import { existsSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { importsOf } from '../../scripts/lua/header.js';

/** The list of docs/architecture.md of the files that the amount of a reserve passes. */

const ROOT = new URL('../../', import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, ROOT), 'utf8');

const [, part = ''] = /<!-- amount -->([^]*?)<!-- \/amount -->/.exec(read('docs/architecture.md')) ?? [];
const ROWS = [...part.matchAll(/^\| (\d+) \| `([^`]+)` \| (.+?) \|/gm)].map(([, number, file, as]) => ({
  number: Number(number),
  file: file as string,
  as: as as string,
}));

/** How those are called that no file of the list imports: the text that they must have, or that the caller must have. */
const CALLED_FROM_OUTSIDE: Readonly<Record<string, (file: string) => boolean>> = {
  'the server': (file) => importsNamed('src/app/create-app.ts', 'createFastify', file),
  'a guard of Nest': (file) => /implements CanActivate/.test(read(file)),
  'a controller of Nest': (file) => /^@Controller\(/m.test(read(file)),
  'the script `reserve`': () =>
    ROWS.some(({ file }) => file.endsWith('.ts') && /callAttestable\(\s*'reserve'/.test(read(file))),
};

/** Whether a file imports the name from the other one, or from a barrel that has it from there. */
function importsNamed(importing: string, name: string, file: string): boolean {
  return [...read(importing).matchAll(/^import (?:type )?\{([^}]*)\} from '(\.[^']+)\.js';$/gm)].some(
    ([, names = '', from = '']) => {
      if (!new RegExp(`\\b${name}\\b`).test(names)) {
        return false;
      }
      const source = posix.join(posix.dirname(importing), `${from}.ts`);
      return source === file || (posix.basename(source) === 'index.ts' && exportsNamed(source, name, file));
    },
  );
}

function exportsNamed(barrel: string, name: string, file: string): boolean {
  return [...read(barrel).matchAll(/^export (?:type )?\{([^}]*)\} from '(\.[^']+)\.js';$/gm)].some(
    ([, names = '', from = '']) => {
      const source = posix.join(posix.dirname(barrel), `${from}.ts`);
      return new RegExp(`\\b${name}\\b`).test(names) && source === file;
    },
  );
}

/** Whether another file of the list uses this one under the given name. */
function isUsed(file: string, as: string): boolean {
  const others = ROWS.map((row) => row.file).filter((other) => other !== file);
  const name = /^`([^`]+)`$/.exec(as)?.[1] ?? '';
  if (file.endsWith('.lua')) {
    const part = posix.basename(file, '.lua');
    return others.some(
      (other) =>
        other.endsWith('.lua') &&
        importsOf(read(other)).includes(part) &&
        name.startsWith(`${part}.`) &&
        read(other).includes(`${name}(`),
    );
  }
  // A method is named by its own name; whoever calls it has the object from Nest or from the property of another object.
  const isMethod = new RegExp(`^  (?:async )?${name}[<(]`, 'm').test(read(file));
  return others.some((other) =>
    isMethod ? new RegExp(`\\.${name}\\(`).test(read(other)) : importsNamed(other, name, file),
  );
}

test('the list has at most about fifteen files of TypeScript', () => {
  const files = new Set(ROWS.map(({ file }) => file).filter((file) => file.endsWith('.ts')));
  expect(files.size).toBeGreaterThan(10);
  expect(files.size).toBeLessThanOrEqual(16);
  expect(ROWS.map(({ number }) => number)).toEqual(ROWS.map((_, index) => index + 1));
});

describe('what amount of POST /v1/reservations passes', () => {
  test.each(ROWS.map(({ file, as }) => [file, as] as const))('%s exists, and is used as %s', (file, as) => {
    expect(existsSync(new URL(file, ROOT))).toBe(true);
    const isCalled = CALLED_FROM_OUTSIDE[as] ?? ((listed: string) => isUsed(listed, as));
    expect(isCalled(file)).toBe(true);
  });
});
