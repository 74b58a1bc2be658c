// The second step of npm run build: puts dist/main.js and everything that it loads into a few files, because most of a start went into
// finding, reading and compiling more than two thousand. What the compiler wrote stays for the scripts that use single modules.
import { renameSync } from 'node:fs';
import { join, relative } from 'node:path';
import { build } from 'esbuild';
import { BUNDLE, namesOfClassesOnly, packagesOutside } from './bundling.mjs';
import { ROOT, readJson } from './install.mjs';

const { packages } = /** @type {{ packages: Record<string, { dev?: boolean }> }} */ (
  readJson(join(ROOT, 'package-lock.json'))
);

/** @param {string} file */
function isOfDevelopmentPackage(file) {
  const [, folder = ''] = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(relative(ROOT, file)) ?? [];
  return packages[folder]?.dev === true;
}

// The same entry of single modules stays for tests, which can change a module before it runs.
renameSync(join(ROOT, 'dist/main.js'), join(ROOT, 'dist/unbundled.js'));

const { metafile } = await build({
  ...BUNDLE,
  // Some load others only if they are installed. Development packages are installed here, but must not ship.
  plugins: [packagesOutside(isOfDevelopmentPackage), namesOfClassesOnly],
  metafile: true,
  absWorkingDir: ROOT,
  entryPoints: { main: join('dist', 'unbundled.js') },
  outdir: 'dist',
  allowOverwrite: true,
  // In a folder, so that they are as deep as the modules that look for ../../lua.
  chunkNames: 'bundle/[name]-[hash]',
  sourcemap: true,
  sourcesContent: false,
  legalComments: 'linked',
});

const shipped = Object.keys(metafile.inputs).filter((file) => isOfDevelopmentPackage(join(ROOT, file)));
if (shipped.length > 0) {
  throw new Error(`the bundle has files of development packages: ${shipped.join(', ')}`);
}
