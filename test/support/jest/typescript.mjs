// Compiles TypeScript for the tests. Each version of a file is compiled once for all runs.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export const ROOT = join(import.meta.dirname, '..', '..', '..');

/**
 * Compiles as the build does, with the types of constructor parameters that Nest uses for injection.
 * @type {import('@swc/core').Options}
 */
export const SWC_OPTIONS = {
  jsc: {
    parser: { syntax: 'typescript', decorators: true },
    transform: { legacyDecorator: true, decoratorMetadata: true, useDefineForClassFields: false },
    target: 'es2023',
    keepClassNames: true,
  },
  module: { type: 'es6' },
  sourceMaps: true,
};

const CACHE = join(ROOT, 'node_modules', '.cache', 'test-typescript');
const OF_ALL = createHash('sha256')
  .update(JSON.stringify(SWC_OPTIONS))
  .update(readFileSync(join(ROOT, 'package-lock.json')));

/**
 * The cached files with the compiled code and its source map.
 * @param {string} file
 */
export function compiledFilesOf(file) {
  const hash = OF_ALL.copy().update(file).update(readFileSync(file)).digest('hex').slice(0, 32);
  return { code: join(CACHE, `${hash}.js`), map: join(CACHE, `${hash}.map`) };
}

/** @param {string} file */
export async function compile(file) {
  const compiled = compiledFilesOf(file);
  if (!existsSync(compiled.code)) {
    // Imported only here, so that processes that find everything compiled do not load the compiler.
    const { transformFile } = await import('@swc/core');
    const { code, map = '' } = await transformFile(file, SWC_OPTIONS);
    mkdirSync(CACHE, { recursive: true });
    write(compiled.map, map);
    write(compiled.code, code);
  }
  return readFileSync(compiled.code, 'utf8');
}

/**
 * Processes that compile the same file at the same time write the same content, and none reads a partial
 * file.
 * @param {string} file
 * @param {string} text
 */
function write(file, text) {
  const work = `${file}-${process.pid}`;
  writeFileSync(work, text);
  renameSync(work, file);
}
