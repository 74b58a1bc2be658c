// The second step of npm run build: puts dist/main.js and everything that it loads into a few files, because most of a start went into
// finding, reading and compiling more than two thousand. What the compiler wrote stays for the scripts that use single modules.
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

const { metafile } = await build({
  ...BUNDLE,
  // Some load others only if they are installed. Development packages are installed here, but must not ship.
  plugins: [packagesOutside(isOfDevelopmentPackage), namesOfClassesOnly],
  metafile: true,
  absWorkingDir: ROOT,
  // With an entry of their own, the constants of the bundle are those of the module, which tests change before the service reads them.
  entryPoints: ['main.js', 'config/constants.js'].map((file) => join('dist', file)),
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
