// Loads the modules with which the service itself reads the headers and parts of the scripts in lua, without
// a build.
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** They import only each other. */
const READERS = ['script-header', 'script-files'];

/**
 * @typedef {typeof import('../src/redis/script-header.ts')} Headers
 * @typedef {typeof import('../src/redis/script-files.ts')} Files
 */

/** @returns {Promise<Headers & Files>} */
export async function loadReaders() {
  const folder = mkdtempSync(join(ROOT, 'node_modules/.script-headers-'));
  try {
    symlinkSync(join(ROOT, 'package.json'), join(folder, 'package.json'));
    for (const name of READERS) {
      const text = readFileSync(join(ROOT, `src/redis/${name}.ts`), 'utf8');
      const options = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023 };
      const { outputText } = ts.transpileModule(text, { compilerOptions: options });
      writeFileSync(join(folder, `${name}.js`), outputText);
    }
    /** @type {(name: string) => Promise<unknown>} */
    const load = (name) => import(join(folder, `${name}.js`));
    const [headers, files] = await Promise.all(READERS.map(load));
    return { .../** @type {Headers} */ (headers), .../** @type {Files} */ (files) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}
