import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { build, stop } from 'esbuild';
import { BUNDLE, namesOfClassesOnly } from '../../scripts/bundling.mjs';

const folder = mkdtempSync(join(tmpdir(), 'hf-names-'));
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await stop();
});

/** Both modules use the same names, so esbuild must rename those of one of them. */
const OTHER = `
export class Named {}
export function pick() {}
`;
/** A wrapped class is what the compiler makes of one with decorators. */
const ENTRY = `
import * as other from './other.mjs';
const decorate = (value) => value;
let Wrapped = class Wrapped {};
Wrapped = decorate(Wrapped);
class Named {}
function pick() {}
const names = (...values) => values.map(({ name }) => name);
console.log(JSON.stringify([names(Wrapped, Named, other.Named), names(pick, other.pick)]));
`;

test('the bundle keeps the names of classes, and spends no call on those of functions', async () => {
  writeFileSync(join(folder, 'other.mjs'), OTHER);
  writeFileSync(join(folder, 'entry.mjs'), ENTRY);
  const out = join(folder, 'out', 'entry.js');
  await build({
    ...BUNDLE,
    splitting: false,
    plugins: [namesOfClassesOnly],
    entryPoints: [join(folder, 'entry.mjs')],
    outfile: out,
  });
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  const [classes, functions] = JSON.parse(
    execFileSync(process.execPath, [out], { encoding: 'utf8' }),
  ) as string[][];
  expect(classes).toEqual(['Wrapped', 'Named', 'Named']);
  expect(functions).toEqual(['pick2', 'pick']);
});

test('a build whose names cannot be found fails', async () => {
  writeFileSync(join(folder, 'plain.mjs'), 'console.log(1);');
  const plain = build({
    ...BUNDLE,
    splitting: false,
    logLevel: 'silent',
    plugins: [namesOfClassesOnly],
    entryPoints: [join(folder, 'plain.mjs')],
    outfile: join(folder, 'out', 'plain.js'),
  });
  await expect(plain).rejects.toThrow('in another way than expected');
});
