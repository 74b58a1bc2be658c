// npm run generate: writes src/redis/script-types.ts, the types of the scripts in lua, from their headers.
// With --check it writes nothing, and fails if the file is not current.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import * as prettier from 'prettier';
import { loadReaders } from './script-readers.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const LUA = pathToFileURL(join(ROOT, 'lua/'));
const OUTPUT = join(ROOT, 'src/redis/script-types.ts');
/**
 * @typedef {import('../src/redis/script-header.ts').Item} Item
 * @typedef {import('../src/redis/script-header.ts').ValueItem} ValueItem
 * @typedef {import('../src/redis/script-header.ts').Alternative} Alternative
 */

const readers = await loadReaders();
const { camelCase, parseHeader, parseReturns, partsOf, readLua, scriptPaths, shapesOf } = readers;

/** @param {string} text */
function pascalCase(text) {
  const name = camelCase(text);
  return name.slice(0, 1).toUpperCase() + name.slice(1);
}

/** @param {ValueItem} item */
function valueType({ type }) {
  if (typeof type !== 'string') {
    return type.map((word) => `'${word}'`).join(' | ');
  }
  return { text: 'string', int: 'number', flag: 'boolean' }[type];
}

/** @param {ValueItem} item @param {boolean} [mayMiss] */
function valueMember(item, mayMiss = item.optional) {
  return `readonly ${camelCase(item.name)}${mayMiss ? '?' : ''}: ${valueType(item)};`;
}

/** @param {Item} item @returns {string} */
function member(item) {
  const name = `readonly ${camelCase(item.name)}`;
  switch (item.kind) {
    case 'value':
      return valueMember(item);
    case 'shape':
      return `${name}: ${pascalCase(item.name)};`;
    case 'texts':
      return `${name}: readonly string[];`;
    case 'record':
      return `${name}: ReadonlyMap<string, string>;`;
    case 'groups':
      return `${name}: readonly { ${item.items.map(member).join(' ')} }[];`;
  }
}

/** @param {Alternative} alternative */
function alternativeType({ status, items, tail }) {
  const word = status === undefined ? '' : `readonly status: '${status}'; `;
  return `{ ${word}${items.map(member).join(' ')} ${tail.map((item) => valueMember(item, true)).join(' ')} }`;
}

function generate() {
  /** @type {Map<string, readonly ValueItem[]>} */
  const allShapes = new Map();
  const signatures = [];
  const replies = [];
  for (const [name, path] of scriptPaths(LUA)) {
    const text = readLua(path, LUA);
    const header = parseHeader(name, text);
    const shapes = new Map([...partsOf(text, LUA).values()].flatMap(shapesOf));
    for (const [shape, values] of shapes) {
      allShapes.set(shape, values);
    }
    const { keys, args, rest, flags, returns } = header;
    const signature = JSON.stringify({ keys, args, ...(rest ? { rest } : {}), flags, returns });
    signatures.push(`/** lua/${path}: ${header.title} */\n${name}: ${signature},`);
    const alternatives = parseReturns(header, shapes).map(alternativeType);
    replies.push(`readonly ${name}: ${alternatives.map((one) => `| ${one}`).join('\n')};`);
  }
  const shapes = [...allShapes].map(
    ([name, values]) =>
      `export interface ${pascalCase(name)} { ${values.map((item) => valueMember(item)).join(' ')} }`,
  );
  return `// Generated from the headers of the scripts in lua by \`npm run generate\`. Do not edit.

export interface ScriptSignature {
  readonly keys: readonly string[];
  readonly args: readonly string[];
  /** True when further arguments follow the named ones. */
  readonly rest?: true;
  readonly flags: readonly ('allow-oom' | 'no-writes')[];
  /** The grammar is described in script-header.ts. */
  readonly returns: string;
}

export const SCRIPT_SIGNATURES = {
${signatures.join('\n')}
} as const satisfies Record<string, ScriptSignature>;

${shapes.join('\n\n')}

/** What each script answers. */
export interface ScriptReplies {
${replies.join('\n')}
}
`;
}

const options = { ...(await prettier.resolveConfig(OUTPUT)), filepath: OUTPUT };
const text = await prettier.format(generate(), options);
if (!process.argv.includes('--check')) {
  writeFileSync(OUTPUT, text);
} else if (readFileSync(OUTPUT, 'utf8') !== text) {
  process.stderr.write('src/redis/script-types.ts does not fit the headers in lua: npm run generate\n');
  process.exitCode = 1;
}
