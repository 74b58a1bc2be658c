// npm run generate: writes src/redis/script-types.ts from the files in lua: all scripts as one library of Redis functions, and for each script
// its arguments, the types of its replies, and a function that decodes them; and src/redis/keys.ts, the builders of key names. The build, the
// tests, lint and typecheck run it first.
import { join } from 'node:path';
import { writeChanged } from '../write-changed.mjs';
import { loadTools } from './load.mjs';

const OUTPUT = join(import.meta.dirname, '../../src/redis');
/**
 * @typedef {import('./header.ts').Item} Item
 * @typedef {import('./header.ts').ValueItem} ValueItem
 * @typedef {import('./header.ts').Alternative} Alternative
 * @typedef {import('./library.ts').ScriptSource} ScriptSource
 */

const { camelCase, DecoderWriter, fieldRows, givenRows, givenWriters, keyBuilders, readLua, readScripts } =
  await loadTools();
const { scripts, library } = readScripts();
const fields = fieldRows(readLua('lib/field.lua'));
const [, usualMarks] = /TEXT = '([\d.,]+)'/.exec(readLua('lib/usual_marks.lua')) ?? [];
if (usualMarks === undefined) {
  throw new Error('lua/lib/usual_marks.lua has no TEXT');
}

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

const decoders = new DecoderWriter();

/**
 * A function that puts values into the order of the header.
 * @param {readonly string[]} names @param {boolean} rest
 */
function listOf(names, rest) {
  return `(v) => [${names.map((name) => `v.${camelCase(name)}, `).join('')}${rest ? '...v.rest' : ''}]`;
}

/** @param {ScriptSource} script */
function entryOf({ path, header, alternatives, audits }) {
  const { name, keys, args, rest, flags, group, attested, set } = header;
  const members = {
    functionName: library.functionNames.get(name),
    flags,
    group,
    audits,
    attested,
    set,
  };
  return `/** lua/${path}: ${header.title} */\n${name}: { ...${JSON.stringify(members)}, keysOf: ${listOf(keys, false)}, argsOf: ${listOf(args, rest)}, decode: ${decoders.decoderOf(alternatives)} },`;
}

/** @param {ScriptSource} script */
function typesOf({ path, header: { name, title, keys, args, rest, attested, set }, alternatives }) {
  const given = [
    ...args.map((arg) => `readonly ${camelCase(arg)}: Argument;`),
    ...(rest ? ['readonly rest: readonly Argument[];'] : []),
  ];
  return `/** lua/${path}: ${title} */
readonly ${name}: {
  readonly keys: { ${keys.map((key) => `readonly ${camelCase(key)}: string;`).join(' ')} };
  readonly keyList: [${keys.map(() => 'Argument').join(', ')}];
  readonly args: { ${given.join(' ')} };
  readonly argList: [${[...args.map(() => 'Argument'), ...(rest ? ['...Argument[]'] : [])].join(', ')}];
  readonly attested: ${attested};
  readonly set: ${set !== undefined};
  readonly reply: ${alternatives.map((one) => `\n    | ${alternativeType(one)}`).join('')};
};`;
}

/** @type {Map<string, readonly ValueItem[]>} */
const shapes = new Map();
/** @param {readonly Item[]} items */
function collectShapes(items) {
  for (const item of items) {
    if (item.kind === 'shape') {
      shapes.set(item.name, item.values);
    } else if (item.kind === 'groups') {
      collectShapes(item.items);
    }
  }
}
for (const { alternatives } of scripts) {
  alternatives.forEach(({ items }) => collectShapes(items));
}

const entries = scripts.map(entryOf);
const WRITTEN = '// Written by `npm run generate`. Do not edit.\n';
const text = `${WRITTEN}import { flag, int, type Fields, type ReplyReader, undeclared, values, word } from './reply-reader.js';

export type Argument = string | number;

${[...shapes].map(([name, items]) => `export interface ${pascalCase(name)} { ${items.map((item) => valueMember(item)).join(' ')} }`).join('\n')}

/** What each script takes and answers, by the names in its header. */
export interface ScriptContracts {
${scripts.map(typesOf).join('\n')}
}

export type ScriptName = keyof ScriptContracts;

/** A function of the library, and how its arguments come and its replies are read. */
export interface ScriptEntry {
  readonly functionName: string;
  /** Keys and arguments by name, in the order of the header. */
  readonly keysOf: (keys: any) => Argument[];
  readonly argsOf: (args: any) => Argument[];
  readonly flags: readonly string[];
  /** The maximum number of calls per run, if calls are grouped. */
  readonly group?: number;
  /** The maximum number of calls that are granted together or not at all, if it has such runs. */
  readonly set?: number;
  /** Whether it may write audit rows. Each of its replies then ends with an additional text; see lua/lib/audit_log.lua. */
  readonly audits: boolean;
  /** Whether there is a function with the suffix \`_attested\`, too; see lua/lib/attest.lua. */
  readonly attested: boolean;
  readonly decode: (r: ReplyReader) => Fields;
}

/** The fields of a reservation's record by name, as lua/lib/field.lua describes and stores them. */
export const FIELD = ${JSON.stringify(Object.fromEntries(fields.map(({ name, stored }) => [name, stored])))} as const;

/** What a reserve's request says that is kept for readers: see lua/lib/field.lua. */
export interface GivenRow {
  readonly of: 'action' | 'subject' | 'request';
  readonly member: string;
  readonly stored: string;
  readonly kind: 'text' | 'json' | 'list' | 'map';
  readonly most?: number;
  readonly otherwise?: string;
  readonly isLong?: true;
  readonly isUnattested?: true;
}

/** In the order of the table. */
export const GIVEN_ROWS: readonly GivenRow[] = ${JSON.stringify(givenRows(fields))};

/** Append the given members of a part as field and value pairs. */
export const GIVEN_WRITERS: Readonly<
  Record<GivenRow['of'], (part: any, fields: string[], json: (value: unknown) => string) => void>
> = ${givenWriters(fields)};

/** The utilizations that are watched where no subscription asks for others. */
export const USUAL_MARKS: readonly number[] = [${usualMarks}];

export const LIBRARY_NAME = '${library.name}';

/** Every command that a script calls by name, with its subcommand if it has some. */
export const LIBRARY_COMMANDS: readonly string[] = ${JSON.stringify(library.commands)};

/** What follows the head that src/redis/script-library.ts puts before it. */
export const LIBRARY_BODY = ${JSON.stringify(library.body)};

/** What a deployment with a test clock has behind it. */
export const TEST_CLOCK = ${JSON.stringify(library.testClock)};

${decoders.constants}

export const SCRIPTS: Readonly<Record<ScriptName, ScriptEntry>> = {
${entries.join('\n')}
};
`;
writeChanged(join(OUTPUT, 'script-types.ts'), text);
writeChanged(join(OUTPUT, 'keys.ts'), WRITTEN + keyBuilders(readLua('lib/keys.lua')));
