// npm run generate: writes the API's types for the console, from the service's own OpenAPI document.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';
import { writeChanged } from '../scripts/write-changed.mjs';
import { compile } from '../test/support/jest/typescript.mjs';

const OUTPUT = join(import.meta.dirname, 'src/api/openapi.ts');
const LOADED = join(import.meta.dirname, `../node_modules/.cache/console-document-${process.pid}.mjs`);

/** @returns {Promise<typeof import('./document.js')>} */
async function loadDocument() {
  await build({
    entryPoints: [join(import.meta.dirname, 'document.ts')],
    bundle: true,
    packages: 'external',
    format: 'esm',
    platform: 'node',
    outfile: LOADED,
    plugins: [
      {
        // Nest needs the types of constructor parameters, which esbuild leaves out.
        name: 'types of parameters',
        setup(bundle) {
          bundle.onLoad({ filter: /\.ts$/ }, async ({ path }) => ({ contents: await compile(path) }));
        },
      },
    ],
  });
  /** @type {unknown} */
  const loaded = await import(pathToFileURL(LOADED).href);
  rmSync(LOADED);
  return /** @type {typeof import('./document.js')} */ (loaded);
}

const { openApiDocument } = await loadDocument();
const document = Buffer.from(await openApiDocument());
const NUMBER = ts.factory.createKeywordTypeNode(ts.SyntaxKind.NumberKeyword);
const BIGINT = ts.factory.createKeywordTypeNode(ts.SyntaxKind.BigIntKeyword);

/**
 * As the reader of src/wire/exact-json.ts returns an integer that may be beyond the safe ones.
 * @param {{ format?: string, maximum?: number }} schema
 */
const exactType = ({ format, maximum = Infinity }) =>
  format === 'int64' && maximum > Number.MAX_SAFE_INTEGER
    ? ts.factory.createUnionTypeNode([NUMBER, BIGINT])
    : undefined;

const types = await openapiTS(document, { immutable: true, transform: exactType });
writeChanged(OUTPUT, `// Written by \`npm run generate\`. Do not edit.\n${astToString(types)}`);
