// Puts archiver-program.ts and everything that it loads into one file, because tests start it often, and it starts in a third of the time.
// Argument: the file, which must be two folders below the root, as deep as the modules that look for ../../lua.
import { renameSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { BUNDLE } from '../../scripts/bundling.mjs';

const [file = ''] = process.argv.slice(2);
const { outputFiles } = await build({
  ...BUNDLE,
  splitting: false,
  write: false,
  entryPoints: [fileURLToPath(new URL('archiver-program.ts', import.meta.url))],
  tsconfig: fileURLToPath(new URL('../../tsconfig.json', import.meta.url)),
  outfile: file,
});
// Another test may be starting the file.
const temporary = `${file}.${process.pid}`;
writeFileSync(temporary, outputFiles[0]?.text ?? '');
renameSync(temporary, file);
