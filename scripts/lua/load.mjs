// Loads the modules of this folder that are written in TypeScript, without a build.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const MODULES = ['header', 'field-table', 'files', 'key-builders', 'library', 'decoders'];

/**
 * @typedef {typeof import('./header.ts')} Headers
 * @typedef {typeof import('./field-table.ts')} FieldTables
 * @typedef {typeof import('./files.ts')} Files
 * @typedef {typeof import('./key-builders.ts')} KeyBuilders
 * @typedef {typeof import('./library.ts')} Libraries
 * @typedef {typeof import('./decoders.ts')} Decoders
 */

/** @returns {Promise<Headers & FieldTables & Files & KeyBuilders & Libraries & Decoders>} */
export async function loadTools() {
  const { outputFiles } = await build({
    stdin: {
      contents: MODULES.map((name) => `export * from './${name}.ts';`).join('\n'),
      resolveDir: import.meta.dirname,
    },
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    // They look for ../../lua.
    define: { 'import.meta.url': JSON.stringify(pathToFileURL(join(import.meta.dirname, 'load.mjs')).href) },
  });
  const code = Buffer.from(outputFiles[0]?.contents ?? '').toString('base64');
  /** @type {unknown} */
  const loaded = await import(`data:text/javascript;base64,${code}`);
  return /** @type {Headers & FieldTables & Files & KeyBuilders & Libraries & Decoders} */ (loaded);
}
