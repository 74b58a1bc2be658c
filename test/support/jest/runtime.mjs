// Runs test files in Node.js itself. Jest's own runtime gives each test file a context with separate modules.
// Loading Nest and the application for each file took more than half of a run's CPU time, and Node.js never
// frees such modules. Here only the modules under test/ are loaded for each file. Sources and packages are
// loaded once per process.
import { createRequire, register } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import JestRuntime from 'jest-runtime';
import { compiledFilesOf } from './typescript.mjs';

// Its types describe the CommonJS build, in which the class is `default`; an ES module imports the class itself.
const Base = /** @type {typeof JestRuntime.default} */ (/** @type {unknown} */ (JestRuntime));
const require = createRequire(import.meta.url);

/** Jest uses the default export of a module only if this is set. */
export const __esModule = true;

register('./hooks.mjs', import.meta.url);

/** How many test files this process has started. */
let files = 0;
/** @type {typeof import('@jest/globals')} */
let globals;

/** What the test file that is being loaded imports as @jest/globals. */
export const globalsOfTest = () => globals;

export default class NodeRuntime extends Base {
  /** @override */
  unstable_shouldLoadAsEsm() {
    return true;
  }

  /**
   * @override
   * @param {string} file
   * @returns {Promise<unknown>}
   */
  async unstable_importModule(file) {
    files += 1;
    globals = this.requireModuleOrMock(file, '@jest/globals');
    return import(`${pathToFileURL(file).href}?file=${files}`);
  }

  /**
   * Loads jest's own modules for running a file, once per file.
   * @override
   * @template T
   * @param {string} file
   * @returns {T}
   */
  requireInternalModule(file) {
    delete require.cache[file];
    Reflect.deleteProperty(globalThis, Symbol.for('EVENT_HANDLERS'));
    /** @type {unknown} */
    const loaded = require(file);
    return /** @type {T} */ (loaded);
  }

  /**
   * The source maps that jest uses for stack traces, by file.
   * @override
   */
  getSourceMaps() {
    return new SourceMaps();
  }
}

/** @extends {Map<string, string>} */
class SourceMaps extends Map {
  /**
   * @override
   * @param {string} url
   */
  get(url) {
    return /^file:.*\.ts(\?|$)/.test(url) ? compiledFilesOf(fileURLToPath(url)).map : undefined;
  }
}
