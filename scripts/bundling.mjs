// What the bundles of the service and of the tests' packages have in common. Loading one file takes a
// fraction of the time of loading two thousand.
import { mkdirSync, writeFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { dirname } from 'node:path';

/** What CommonJS packages expect to be there, as an ES module has it: for modules of Node, and for packages outside the bundle. */
const COMMONJS = `import { createRequire as createBundleRequire } from 'node:module';
const require = createBundleRequire(import.meta.url), bundleFilename = import.meta.filename, bundleDirname = import.meta.dirname;`;

/** @typedef {import('esbuild').BuildOptions} BuildOptions */

/**
 * Nest and others offer to load packages that are not installed, and catch the failure. So those are left to Node.
 * @param {(file: string) => boolean} isOutside whether the package of a file must be left to Node, too
 * @returns {import('esbuild').Plugin}
 */
export const packagesOutside = (isOutside = () => false) => ({
  name: 'packages outside',
  setup(build) {
    build.onResolve({ filter: /^[^./]/ }, async ({ path, pluginData, ...options }) => {
      if (pluginData === packagesOutside || isBuiltin(path)) {
        return undefined;
      }
      const found = await build.resolve(path, { ...options, pluginData: packagesOutside });
      return found.errors.length > 0 || isOutside(found.path) ? { path, external: true } : found;
    });
  },
});

/** @satisfies {BuildOptions} */
export const BUNDLE = {
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  // The oldest version that package.json allows.
  target: 'node20.19',
  // Nest names providers and exceptions after their classes.
  keepNames: true,
  banner: { js: COMMONJS },
  define: { __filename: 'bundleFilename', __dirname: 'bundleDirname' },
  // Decorators need it before they run. A bundler runs a CommonJS module only after all ES modules next to
  // it.
  external: ['reflect-metadata'],
  plugins: [packagesOutside()],
  logLevel: 'warning',
};

/**
 * With keepNames, esbuild defines the name of each function every time that it creates the function. In hot code, this took a fifth of
 * the service's time. esbuild 0.28.2 has no option for classes alone, and without keepNames it renames every class that a decorator
 * wraps. So a plugin removes the names of functions from its output. The text that it looks for is esbuild's own: if that changes, the
 * build fails, and so does test/contracts/names-of-classes.test.ts.
 */
const NAME_OF_FUNCTION =
  'var __name = (target, value) => __defProp(target, "name", { value, configurable: true });';
const NAME_OF_CLASS = /(static \{\s+)__name\(this, ("[^"]+")\);/g;
const NAME_OF_NOTHING = 'var __name = (target) => target;';

/** @param {string} text of a file of the bundle */
const edited = (text) =>
  text
    .replace(NAME_OF_FUNCTION, NAME_OF_NOTHING)
    .replace(NAME_OF_CLASS, '$1Object.defineProperty(this, "name", { value: $2, configurable: true });');

/**
 * Writes the bundle, in which only names of classes are kept. Nest names providers and exceptions after them.
 * @type {import('esbuild').Plugin}
 */
export const namesOfClassesOnly = {
  name: 'names of classes only',
  setup(build) {
    build.initialOptions.keepNames = true;
    build.initialOptions.write = false;
    build.onEnd(({ outputFiles = [], errors }) => {
      const files = outputFiles.map(({ path, text }) => ({
        path,
        text: path.endsWith('.js') ? edited(text) : text,
      }));
      const isNamed = files.some(({ text }) => text.includes(NAME_OF_NOTHING));
      const isLeft = files.some(({ text }) => text.includes('__name(this,'));
      if (errors.length === 0 && (!isNamed || isLeft)) {
        throw new Error('esbuild names functions or classes in another way than expected');
      }
      for (const { path, text } of files) {
        mkdirSync(dirname(path), { recursive: true });
        writeFileSync(path, text);
      }
    });
  },
};
