// Runs test files in Node itself. Jest's own runtime gives each test file a context with modules of its own: loading Nest and the
// application anew for each of them took more than half of the processor time of a run, and Node never frees such modules.
// Here only what stands under test/ is loaded anew. Sources and packages are loaded once in each process.
import { createRequire, register } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import JestRuntime from 'jest-runtime';
import { compiledFilesOf } from './typescript.mjs';

// Its types describe the CommonJS build, in which the class is `default`; an ES module imports the class itself.
const Base = /** @type {typeof JestRuntime.default} */ (/** @type {unknown} */ (JestRuntime));
const require = createRequire(import.meta.url);

/** Jest takes the default export of a module only with this mark. */
export const __esModule = true;

register('./hooks.mjs', import.meta.url);

/** Test files that this process has started. */
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
   * Loads the part of jest that knows the tests of a file, anew for each.
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
   * Where jest finds the source map of a file in a stack trace.
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
