/**
 * The contract at the top of each script in `lua`: keys, arguments, and replies.
 *
 * Replies are flat lists of texts. RETURNS lists the alternatives, separated by ` | `, each a status word followed by items:
 *
 *     name            a text                      name?      a text, empty if there is no value
 *     name:int        a number; `_ms` and `_count` imply int, and name:text keeps the text
 *     name:flag       0 or 1                      name:a|b   one of some words
 *     name*           texts                       name(items)*   groups of items
 *     name{}          names and values, as one map
 *     [items]         at the end: all of them, or none
 *     field.ROW       the fields that lua/lib/field.lua marks as those of a list's row, each as `name?`
 *
 * A list or record extends to the end of the reply, unless a number `x_count` right before it gives its number of texts, groups or pairs;
 * `text_count` counts names and values separately. The name of a SHAPE is one text with several comma-separated values; the part that
 * builds such texts declares it.
 */

export type TextType = 'text' | 'int' | 'flag' | readonly string[];

export type Item =
  | { readonly kind: 'value'; readonly name: string; readonly type: TextType; readonly optional: boolean }
  | { readonly kind: 'shape'; readonly name: string; readonly values: readonly ValueItem[] }
  | { readonly kind: 'texts' | 'record'; readonly name: string; readonly counted: Counted }
  | {
      readonly kind: 'groups';
      readonly name: string;
      readonly counted: Counted;
      readonly items: readonly Item[];
    };

export type ValueItem = Extract<Item, { kind: 'value' }>;

/** Whether a count precedes a list, and what it counts. */
export type Counted = 'no' | 'items' | 'texts';

export interface Alternative {
  /** Absent in a script with a single alternative and no status word. */
  readonly status: string | undefined;
  readonly items: readonly Item[];
  /** Optional items at the end: all of them, or none. */
  readonly tail: readonly ValueItem[];
}

export type Shapes = ReadonlyMap<string, readonly ValueItem[]>;

export interface ScriptHeader {
  readonly name: string;
  /** What the script does: the first sentence of its header. */
  readonly title: string;
  readonly flags: readonly string[];
  readonly keys: readonly string[];
  readonly args: readonly string[];
  readonly rest: boolean;
  readonly returns: string;
  readonly emits: string;
  /** The bound on the work of one run. */
  readonly bound: string;
  /** The maximum number of calls per run, if calls are grouped. */
  readonly group: number | undefined;
  /** Whether it has a second function that says when and in which trace it decided; see lua/lib/attest.lua. */
  readonly attested: boolean;
  /** The maximum number of calls that are granted together or not at all, if it has such runs; see lua/ledger/lib/all_or_none.lua. */
  readonly set: number | undefined;
}

/** The value of the field that starts at a line of the header, with its continuation lines. */
function fieldAt(lines: readonly string[], start: number, field: string): string {
  const further = lines.slice(start + 1);
  const end = further.findIndex((line) => !/^-- {4,}\S/.test(line));
  return [
    (lines[start] as string).slice(field.length + 3),
    ...further.slice(0, end).map((line) => line.slice(2)),
  ]
    .map((line) => line.trim())
    .join(' ');
}

/** The value of a header field, or undefined. */
export function headerField(text: string, field: string): string | undefined {
  const lines = text.split('\n');
  const start = lines.findIndex((line) => line.startsWith(`-- ${field} `));
  return start === -1 ? undefined : fieldAt(lines, start, field);
}

/**
 * The parts that a script or part includes: a field `-- @include part, part`.
 * @throws Error if the field is malformed or there is a second one.
 */
export function importsOf(text: string): string[] {
  const fields = [...text.matchAll(/^-- @include .*(?:\n-- {4,}\S.*)*/gm)].map(([lines]) =>
    lines
      .slice('-- @include '.length)
      .replaceAll(/\s*\n-- +/g, ' ')
      .trim(),
  );
  const [value, second] = fields;
  if (value === undefined) {
    return [];
  }
  if (second !== undefined || !/^\w+(?:, \w+)*$/.test(value)) {
    throw new Error(
      `'-- @include ${second ?? value}' is not the one field of the form '-- @include part, part'`,
    );
  }
  return value.split(', ');
}

/** Converts snake_case to camelCase. */
export function camelCase(name: string): string {
  return name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** The arguments that `ARGV[n-m] origin` stands for; see lua/lib/audit_row.lua. */
const ORIGIN = ['actor', 'key_id', 'request_id', 'trace'];

function numbered(text: string, kind: 'KEYS' | 'ARGV', name: string): string[] {
  const names: string[] = [];
  const lines = text.matchAll(new RegExp(`^-- ${kind}\\[((\\d+)(?:-(\\d+))?)\\]\\s+(\\w+)`, 'gm'));
  for (const [, place, first, last = first, word = ''] of lines) {
    const isFirst = Number(first) === names.length + 1;
    names.push(...(word === 'origin' ? ORIGIN : [word]));
    if (!isFirst || Number(last) !== names.length) {
      throw new Error(`${name}.lua: ${kind}[${place}] is out of order in the header`);
    }
  }
  return names;
}

/**
 * Parses the header of a script.
 * @throws Error if a field is missing.
 */
export function parseHeader(name: string, text: string): ScriptHeader {
  const shebang = /^#!lua(?: flags=([a-z,-]+))?\n/.exec(text);
  const title = new RegExp(`^-- ${name}: (\\S(?:.*[^.]\\n-- )*?.*\\.)$`, 'm')
    .exec(text)?.[1]
    ?.replaceAll('\n-- ', ' ');
  const [returns, bound, emits] = ['RETURNS', 'BOUND', 'EMITS'].map((field) => headerField(text, field));
  const group = headerField(text, 'GROUP');
  const set = headerField(text, 'SET');
  if (
    shebang === null ||
    title === undefined ||
    returns === undefined ||
    bound === undefined ||
    emits === undefined
  ) {
    throw new Error(
      `${name}.lua: the header needs a shebang on line 1, '-- ${name}: ...', RETURNS, BOUND and EMITS`,
    );
  }
  return {
    name,
    title,
    flags: shebang[1]?.split(',') ?? [],
    keys: numbered(text, 'KEYS', name),
    args: numbered(text, 'ARGV', name),
    rest: /^-- ARGV\[\.\.\.\]/m.test(text),
    returns,
    emits,
    bound,
    group: group === undefined ? undefined : Number(group),
    attested: headerField(text, 'ATTESTED') !== undefined,
    set: set === undefined ? undefined : Number.parseInt(set, 10),
  };
}

/** The SHAPE lines of a part: `-- SHAPE name = value,value,...`. */
export function shapesOf(text: string): [string, readonly ValueItem[]][] {
  return [...text.matchAll(/^-- SHAPE\s+(\w+) = (\S+)$/gm)].map(([, name, values]) => [
    name as string,
    (values as string).split(',').map((value) => parseValue(value)),
  ]);
}

const VALUE = /^([a-z][a-z0-9_]*)(?::([A-Za-z0-9_|]+))?(\?)?$/;

function typeOf(name: string, declared: string | undefined): TextType {
  if (declared === undefined) {
    return /(?:^|_)(?:ms|count)$/.test(name) ? 'int' : 'text';
  }
  if (declared === 'int' || declared === 'flag' || declared === 'text') {
    return declared;
  }
  return declared.split('|');
}

function parseValue(token: string): ValueItem {
  const match = VALUE.exec(token);
  if (match === null) {
    throw new Error(`'${token}' is not a valid item of a reply`);
  }
  const [, name = '', declared, optional] = match;
  return { kind: 'value', name, type: typeOf(name, declared), optional: optional !== undefined };
}

/** Splits at spaces outside parentheses and brackets. */
function tokensOf(text: string): string[] {
  const tokens: string[] = [];
  let [depth, token] = [0, ''];
  for (const letter of text.trim()) {
    depth += letter === '(' || letter === '[' ? 1 : letter === ')' || letter === ']' ? -1 : 0;
    if (letter === ' ' && depth === 0) {
      tokens.push(token);
      token = '';
    } else {
      token += letter;
    }
  }
  return [...tokens, token].filter((one) => one !== '');
}

function listOf(token: string, counted: Counted, shapes: Shapes): Item | undefined {
  const groups = /^(\w+)\((.*)\)\*$/.exec(token);
  if (groups !== null) {
    const items = itemsOf(tokensOf(groups[2] as string), shapes, false);
    return { kind: 'groups', name: groups[1] as string, counted, items };
  }
  const [, name, mark] = /^(\w+)(\*|\{\})$/.exec(token) ?? [];
  return name === undefined ? undefined : { kind: mark === '*' ? 'texts' : 'record', name, counted };
}

function countBefore(items: Item[]): Counted {
  const last = items.at(-1);
  if (last?.kind !== 'value' || !last.name.endsWith('_count')) {
    return 'no';
  }
  items.pop();
  return last.name === 'text_count' ? 'texts' : 'items';
}

function itemsOf(tokens: readonly string[], shapes: Shapes, mayGoOn: boolean): Item[] {
  const items: Item[] = [];
  for (const [index, token] of tokens.entries()) {
    const values = shapes.get(token);
    if (values !== undefined) {
      items.push({ kind: 'shape', name: token, values });
    } else if (/[*}]$/.test(token)) {
      const counted = countBefore(items);
      const list = listOf(token, counted, shapes);
      if (list === undefined) {
        throw new Error(`'${token}' is not a valid item of a reply`);
      }
      if (counted === 'no' && !(mayGoOn && index === tokens.length - 1)) {
        throw new Error(`'${token}' needs a count before it: something follows`);
      }
      items.push(list);
    } else {
      items.push(parseValue(token));
    }
  }
  const names = items.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) {
    throw new Error(`there are two items of the name ${twice}`);
  }
  return items;
}

function parseAlternative(text: string, shapes: Shapes): Alternative {
  const tokens = tokensOf(text);
  const status = /^[A-Z][A-Z0-9_]*$/.test(tokens[0] ?? '') ? tokens.shift() : undefined;
  const optional = /^\[(.*)\]$/.exec(tokens.at(-1) ?? '')?.[1];
  if (optional !== undefined) {
    tokens.pop();
  }
  const items = itemsOf(tokens, shapes, optional === undefined);
  const tail = optional === undefined ? [] : tokensOf(optional).map(parseValue);
  if (status !== undefined && [...items, ...tail].some(({ name }) => name === 'status')) {
    throw new Error(`an item is named status, as the word ${status} is`);
  }
  return { status, items, tail };
}

/**
 * The possible replies of a script.
 * @throws Error if RETURNS does not follow the grammar at the top of this file.
 */
export function parseReturns({ name, returns }: ScriptHeader, shapes: Shapes): Alternative[] {
  try {
    const alternatives = returns.split(/\s\|\s/).map((text) => parseAlternative(text, shapes));
    const words = alternatives.map(({ status }) => status);
    if (alternatives.length > 1 && (words.includes(undefined) || new Set(words).size < words.length)) {
      throw new Error('each alternative needs its own status word');
    }
    return alternatives;
  } catch (error) {
    throw new Error(`${name}.lua: RETURNS: ${(error as Error).message}`, { cause: error });
  }
}
