// Module hooks for the processes that run tests; see runtime.mjs. They load TypeScript, and give each test
// file its own copies of modules.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { ROOT, compile } from './typescript.mjs';

const TESTS = `${pathToFileURL(join(ROOT, 'test')).href}/`;
/**
 * Loaded once per process: this folder, and the checks against the protocol's documents, which compile the
 * schemas they need.
 */
const LOADED_ONCE = [new URL('.', import.meta.url).href, `${TESTS}support/spec/`];
const GLOBALS = new URL('globals.mjs', import.meta.url).href;

/** @type {import('node:module').ResolveHook} */
export async function resolve(specifier, context, nextResolve) {
  if (specifier === '@jest/globals') {
    return { url: `${GLOBALS}${queryOf(context.parentURL)}`, format: 'module', shortCircuit: true };
  }
  const source = sourceOf(specifier, context.parentURL);
  const resolved =
    source === undefined ? await nextResolve(specifier, context) : { url: source, shortCircuit: true };
  const isOfTests =
    resolved.url.startsWith(TESTS) && !LOADED_ONCE.some((folder) => resolved.url.startsWith(folder));
  return isOfTests ? { ...resolved, url: withQuery(resolved.url, queryOf(context.parentURL)) } : resolved;
}

/**
 * Each test file has its own query, which all modules of test/ that it imports inherit. So Node.js treats
 * them as different from those of the last file.
 * @param {string | undefined} url
 */
const queryOf = (url) => new URL(url ?? TESTS).search;

/** @type {(url: string, query: string) => string} */
const withQuery = (url, query) => (url.includes('?') ? url : `${url}${query}`);

/**
 * The TypeScript file behind an import that uses its compiled name.
 * @param {string} specifier
 * @param {string | undefined} parent
 */
function sourceOf(specifier, parent) {
  if (parent === undefined || !/^\.{1,2}\/.*\.[jt]s$/.test(specifier)) {
    return undefined;
  }
  const url = new URL(specifier.replace(/\.js$/, '.ts'), parent);
  return existsSync(url) ? url.href : undefined;
}

/** @type {import('node:module').LoadHook} */
export async function load(url, context, nextLoad) {
  const { protocol, pathname } = new URL(url);
  if (protocol !== 'file:' || !pathname.endsWith('.ts')) {
    return nextLoad(url, context);
  }
  return { format: 'module', source: await compile(fileURLToPath(url)), shortCircuit: true };
}
