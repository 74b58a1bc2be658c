// The second step of npm run build: puts dist/main.js and everything that it loads into a few files, because most of a start went into
// finding, reading and compiling more than two thousand. What the compiler wrote stays for the scripts that use single modules.
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { build } from 'esbuild';
import { BUNDLE, packagesOutside } from './bundling.mjs';
import { ROOT, readJson } from './install.mjs';

const { packages } = /** @type {{ packages: Record<string, { dev?: boolean }> }} */ (
  readJson(join(ROOT, 'package-lock.json'))
);

/** @param {string} file */
function isOfDevelopmentPackage(file) {
  const [, folder = ''] = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(relative(ROOT, file)) ?? [];
  return packages[folder]?.dev === true;
}

/** esbuild defines a function's name each time that it creates the function. In hot code, this took a fifth of the service's time. */
const NAME_OF_FUNCTION =
  'var __name = (target, value) => __defProp(target, "name", { value, configurable: true });';
const NAME_OF_CLASS = /(static \{\s+)__name\(this, ("[^"]+")\);/g;

/**
 * Only names of classes are kept. Nest names providers and exceptions after them.
 * @param {string} text
 */
const keepNamesOfClasses = (text) =>
  text
    .replace(NAME_OF_FUNCTION, 'var __name = (target) => target;')
    .replace(NAME_OF_CLASS, '$1Object.defineProperty(this, "name", { value: $2, configurable: true });');

// The same entry of single modules stays for tests, which can change a module before it runs.
renameSync(join(ROOT, 'dist/main.js'), join(ROOT, 'dist/unbundled.js'));

const { metafile, outputFiles } = await build({
  ...BUNDLE,
  // Some load others only if they are installed. Development packages are installed here, but must not ship.
  plugins: [packagesOutside(isOfDevelopmentPackage)],
  metafile: true,
  write: false,
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
if (!outputFiles.some(({ text }) => text.includes(NAME_OF_FUNCTION))) {
  throw new Error('the bundle names its functions in another way than expected');
}
for (const { path, text } of outputFiles) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, path.endsWith('.js') ? keepNamesOfClasses(text) : text);
}
