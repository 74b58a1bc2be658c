// Packages for the tests, each a file or two instead of hundreds. Jest gives each test file modules of its own, and finding, reading and
// compiling those of Nest alone took most of the time of a file that starts the application.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { BUNDLE } from '../../scripts/bundling.mjs';
import { ROOT, readJson } from '../../scripts/install.mjs';

const CACHE = join(ROOT, 'node_modules', '.cache');
/** What sources and tests import beside the names of packages. */
const DEEP = ['@nestjs/common/constants.js', 'ajv/dist/2020.js'];
/** Development dependencies that tests load in their own files, and not as programs. */
const OF_TESTS = ['@nestjs/testing', 'ajv', 'ajv-formats', 'fast-check', 'standardwebhooks', 'yaml'];

/**
 * Bundles what package.json lists, once for each lock file.
 * @returns {Promise<Record<string, string>>} for moduleNameMapper of jest
 */
export async function bundlePackages() {
  const { dependencies } = /** @type {{ dependencies: Record<string, string> }} */ (
    readJson(join(ROOT, 'package.json'))
  );
  const bundled = Object.keys(dependencies).filter((name) => !BUNDLE.external.includes(name));
  const names = [...bundled, ...DEEP, ...OF_TESTS];
  const folder = join(CACHE, `test-packages-${digestOf(names)}`);
  if (!existsSync(folder)) {
    await bundle(names, folder);
  }
  return Object.fromEntries(names.map((name) => [`^${name}$`, join(folder, fileOf(name))]));
}

/** @param {string[]} names */
function digestOf(names) {
  const inputs = [
    import.meta.filename,
    join(ROOT, 'scripts', 'bundling.mjs'),
    join(ROOT, 'package-lock.json'),
  ];
  const hash = createHash('sha256').update(names.join()).update(process.version);
  inputs.forEach((file) => hash.update(readFileSync(file)));
  return hash.digest('hex').slice(0, 16);
}

/** @param {string} name */
const fileOf = (name) => `${name.replaceAll(/[@/.]/g, '-')}.mjs`;

/**
 * Runs that start at the same time bundle all of them; the first one that is done counts.
 * @param {string[]} names
 * @param {string} folder
 */
async function bundle(names, folder) {
  mkdirSync(CACHE, { recursive: true });
  const work = mkdtempSync(`${folder}-`);
  try {
    // Only here, so that a run that finds the bundles does not load the bundler.
    const { build } = await import('esbuild');
    await build({
      ...BUNDLE,
      absWorkingDir: ROOT,
      entryPoints: names.map((name) => ({ in: `entry:${name}`, out: fileOf(name).slice(0, -'.mjs'.length) })),
      plugins: [entries, ...BUNDLE.plugins],
      // The entries ask every package for it.
      logOverride: { 'import-is-undefined': 'silent' },
      outdir: work,
      outExtension: { '.js': '.mjs' },
    });
    renameSync(work, folder);
  } catch (error) {
    rmSync(work, { recursive: true });
    if (!existsSync(folder)) {
      throw error;
    }
  }
}

/**
 * A module for each package that exports what Node gives to those who import it: the bundler alone gives one name for a CommonJS package.
 * @type {import('esbuild').Plugin}
 */
const entries = {
  name: 'entries',
  setup(context) {
    context.onResolve({ filter: /^entry:/ }, ({ path }) => ({
      path: path.slice('entry:'.length),
      namespace: 'entry',
    }));
    context.onLoad({ filter: /.*/, namespace: 'entry' }, async ({ path }) => {
      /** @type {unknown} */
      const module = await import(path);
      const names = Object.keys(/** @type {object} */ (module)).filter((name) =>
        /^[A-Za-z_$][\w$]*$/.test(name),
      );
      const exported = names.map(
        (name, index) => `const _${index} = all.${name}; export { _${index} as ${name} };`,
      );
      return {
        contents: [`import * as all from '${path}';`, ...exported].join('\n'),
        resolveDir: ROOT,
        loader: 'js',
      };
    });
  },
};
