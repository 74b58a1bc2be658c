// What the bundles of the service and of the tests' packages have in common. Loading one file takes a
// fraction of the time of loading two thousand.
import { isBuiltin } from 'node:module';

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
