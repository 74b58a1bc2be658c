import { hash } from 'node:crypto';
import { type FieldRow, fieldRows, withStoredNames } from './field-table.js';
import { allParts, partsOf, readLua, scriptPaths } from './files.js';
import {
  type Alternative,
  importsOf,
  parseHeader,
  parseReturns,
  type ScriptHeader,
  shapesOf,
} from './header.js';

/** A script as its header describes it. */
export interface ScriptSource {
  /** Below `lua`. */
  readonly path: string;
  readonly header: ScriptHeader;
  readonly alternatives: readonly Alternative[];
  /** Whether it may write audit rows. Each of its replies then ends with an additional text; see lua/lib/audit_log.lua. */
  readonly audits: boolean;
  readonly text: string;
  /** What it includes, and what runs it. */
  readonly includes: readonly string[];
}

/** All scripts as functions of one library. The names change with the code. */
export interface AssembledLibrary {
  readonly name: string;
  /** What follows the first line of the library's text: `PRELUDE`, the parts, and a call of `register` for each function. */
  readonly body: string;
  /** What a deployment with a test clock has behind the body. */
  readonly testClock: string;
  /** Every command that a script calls by name, with its subcommand if it has some. */
  readonly commands: readonly string[];
  /** The name of each script's function. That of an attested one has the suffix `_attested`. */
  readonly functionNames: ReadonlyMap<string, string>;
}

const LIBRARY_PREFIX = 'holdfast_';

const AUDITS = 'audit_log';
const GROUPS = 'grouped';
const ATTESTS = 'attest';
const SETS = 'all_or_none';
const TEST_CLOCK = 'test_clock';

/** The functions of a script: itself, with stamps, and for sets of calls. */
interface Variant {
  readonly isAttested: boolean;
  readonly isSet: boolean;
}

/** What runs a script's own code, which is the function `call`: the stamp comes before what tells of audit rows. */
function runOf(
  { name, keys, args, group }: ScriptHeader,
  audits: boolean,
  { isAttested, isSet }: Variant,
): string {
  const place = (names: readonly string[], wanted: string): number => names.indexOf(wanted) + 1;
  const places = `idempotency = ${place(keys, 'idempotency')}, fingerprint = ${place(args, 'fingerprint')}, trace = ${place(args, 'trace')}`;
  const decided = isAttested
    ? `function(keys, args, group) return ${ATTESTS}.attested_reply(call, { ${places} }, keys, args, group) end`
    : 'call';
  if (group !== undefined && audits) {
    throw new Error(`${name}: a grouped script cannot write audit rows`);
  }
  if (isSet) {
    return `function(keys, args) return ${SETS}.run_set(${decided}, keys, args) end`;
  }
  if (group !== undefined) {
    return `function(keys, args) return ${GROUPS}.run_calls(${decided}, keys, args) end`;
  }
  return audits
    ? `function(keys, args) return ${AUDITS}.with_audited_request(${decided}, keys, args) end`
    : decided;
}

function variantsOf({ attested, set }: ScriptHeader): Variant[] {
  const attestations = attested ? [false, true] : [false];
  const sets = set === undefined ? [false] : [false, true];
  return sets.flatMap((isSet) => attestations.map((isAttested) => ({ isSet, isAttested })));
}

const withoutComments = (code: string): string => code.replace(/^\s*--.*\n/gm, '');

const rowsIn = (known: ReadonlyMap<string, string>): FieldRow[] => fieldRows(known.get('field') ?? '');

/** A script's own code as a function. */
function callOf(text: string): string {
  const own = text.slice(text.indexOf('\n') + 1);
  return `local function call(KEYS, ARGV, group)\n${withoutComments(own)}\nend\n`;
}

/** @throws Error if the header is malformed, or an include does not exist. */
export function scriptOf(path: string, text: string, known = allParts()): ScriptSource {
  const name = path.replace(/^.*\//, '').replace(/\.lua$/, '');
  const header = parseHeader(name, text);
  const rowFields = rowsIn(known).flatMap(({ row, stored }) => (row ? [`${stored}?`] : []));
  const returns = header.returns.replace('field.ROW', rowFields.join(' '));
  const parts = partsOf([text], known);
  const audits = parts.has(AUDITS);
  const runs = [
    ...(audits ? [AUDITS] : []),
    ...(header.group === undefined ? [] : [GROUPS]),
    ...(header.attested ? [ATTESTS] : []),
  ];
  return {
    path,
    header,
    alternatives: parseReturns({ ...header, returns }, new Map([...parts.values()].flatMap(shapesOf))),
    audits,
    text,
    includes: [...new Set([...importsOf(text), ...runs])],
  };
}

/** Where the library keeps its parts, by name. */
const SHARED = 'shared';

/** Parts as locals. */
function localsOf(parts: readonly string[]): string {
  return parts.length === 0
    ? ''
    : `local ${parts.join(', ')} = ${parts.map((part) => `${SHARED}.${part}`).join(', ')}\n`;
}

/** A part as a field of `shared`. A function of its own, because Lua allows 200 locals per function. */
function sharedPart(part: string, code: string): string {
  return `${SHARED}.${part} = (function()\n${localsOf(importsOf(code))}${withoutComments(code)}\nend)()\n`;
}

/** A script's own code, and the functions that run it. */
function functionsOf({ text, includes, header, audits }: ScriptSource, functionName: string): string {
  const flags = header.flags.map((flag) => `'${flag}'`).join(', ');
  const functions = variantsOf(header).map((variant) => {
    const name = `${functionName}${variant.isSet ? '_set' : ''}${variant.isAttested ? '_attested' : ''}`;
    return `register{ function_name = '${name}', callback = ${runOf(header, audits, variant)}, flags = { ${flags} } }\n`;
  });
  return `;(function()\n${localsOf(includes)}${callOf(text)}${functions.join('')}end)()\n`;
}

/**
 * One library of all scripts, with each part once. The parts run when the library is loaded; only a script's own code runs per call. Redis has
 * one Lua heap for all functions: the less there is in it, the less the garbage collector has to walk, and scripts that share their parts
 * find them in the processor's caches.
 */
export function libraryOf(scripts: readonly ScriptSource[], known = allParts()): AssembledLibrary {
  const running = scripts.map(({ includes }) => `-- @include ${includes.join(', ')}`);
  const parts = partsOf(
    running.filter((line) => line !== '-- @include '),
    known,
  );
  const shared = [...parts].map(([part, code]) => sharedPart(part, code));
  const testClock = sharedPart(TEST_CLOCK, known.get(TEST_CLOCK) ?? '');
  const libraryNamed = (digest: string): AssembledLibrary => {
    const functionNames = new Map(
      scripts.map(({ header: { name } }) => [name, `${LIBRARY_PREFIX}${name}_${digest}`]),
    );
    const functions = scripts.map((script) =>
      functionsOf(script, functionNames.get(script.header.name) as string),
    );
    const body = withStoredNames(
      `local ${SHARED} = {}\n${shared.join('')}${functions.join('')}`,
      rowsIn(known),
    );
    return { name: `${LIBRARY_PREFIX}${digest}`, body, testClock, commands: commandsIn(body), functionNames };
  };
  const digest = hash('sha256', libraryCode(libraryNamed(''))).slice(0, 12);
  return libraryNamed(digest);
}

/** In `redis.call('XGROUP', 'CREATE', …)`, as in `redis.call(is_down and 'XREVRANGE' or 'XRANGE', …)`. */
const CALLED = /\bredis\.p?call\((?:\w+ and )?'([A-Z]+)'(?:(?: or |, )'([A-Z]+)')?/g;

function commandsIn(code: string): string[] {
  const found = [...code.matchAll(CALLED)].flatMap(([call, first = '', second]) => {
    const both = second === undefined ? [first] : [first, second];
    return call.includes(' or ') ? both : [both.join(' ')];
  });
  return [...new Set(found)].sort();
}

/** The text for FUNCTION LOAD. */
export function libraryCode({ name, body }: Pick<AssembledLibrary, 'name' | 'body'>): string {
  return `#!lua name=${name}\nlocal register = redis.register_function\n${body}`;
}

/**
 * Reads every script.
 * @throws Error if one of them is malformed.
 */
export function readScripts(): { scripts: ScriptSource[]; library: AssembledLibrary } {
  const known = allParts();
  const scripts = [...scriptPaths().values()].map((path) => scriptOf(path, readLua(path), known));
  return { scripts, library: libraryOf(scripts, known) };
}
