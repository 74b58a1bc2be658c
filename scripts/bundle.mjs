// The second step of npm run build: puts dist/main.js and everything that it loads into a few files, because most of a start went into
// finding, reading and compiling more than two thousand. What the compiler wrote stays for the scripts that use single modules.
import { join } from 'node:path';
import { build } from 'esbuild';
import { BUNDLE } from './bundling.mjs';
import { ROOT } from './install.mjs';

await build({
  ...BUNDLE,
  absWorkingDir: ROOT,
  entryPoints: [join('dist', 'main.js')],
  outdir: 'dist',
  allowOverwrite: true,
  // In a folder, so that they are as deep as the modules that look for ../../lua.
  chunkNames: 'bundle/[name]-[hash]',
  sourcemap: true,
  sourcesContent: false,
  legalComments: 'linked',
});
