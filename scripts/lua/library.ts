import { hash } from 'node:crypto';
import { partsOf, readLua, scriptPaths, usedNames } from './files.js';
import { type Alternative, parseHeader, parseReturns, type ScriptHeader, shapesOf } from './header.js';

/** A script as its header describes it. */
export interface ScriptSource {
  /** Below `lua`. */
  readonly path: string;
  readonly header: ScriptHeader;
  readonly alternatives: readonly Alternative[];
  /** Whether it may write audit rows. Each of its replies then ends with an additional text; see lua/lib/append_audit.lua. */
  readonly audits: boolean;
  /** With includes of everything that runs it. */
  readonly text: string;
}

/** All scripts as functions of one library. The names change with the code. */
export interface AssembledLibrary {
  readonly name: string;
  /** What follows the first line of the library's text: `PRELUDE`, the parts, and a call of `register` for each function. */
  readonly body: string;
  /** Every command that a script calls by name, with its subcommand if it has some. */
  readonly commands: readonly string[];
  /** The name of each script's function. That of an attested one has the suffix `_attested`. */
  readonly functionNames: ReadonlyMap<string, string>;
}

const LIBRARY_PREFIX = 'holdfast_';

const AUDIT_PART = 'append_audit';
const AUDIT_WRAPPER = 'with_audited_request';
const GROUP_PART = 'group';
const GROUP_WRAPPER = 'run_calls';
const ATTEST_PART = 'attest';
const ATTEST_WRAPPER = 'attested_reply';

/** What runs a script's own code, which is the function `call`: the stamp comes before what tells of audit rows. */
function runOf({ name, keys, args, group }: ScriptHeader, audits: boolean, isAttested: boolean): string {
  const place = (names: readonly string[], wanted: string): number => names.indexOf(wanted) + 1;
  const places = `idempotency = ${place(keys, 'idempotency')}, fingerprint = ${place(args, 'fingerprint')}, trace = ${place(args, 'trace')}`;
  const decided = isAttested
    ? `function(keys, args, group) return ${ATTEST_WRAPPER}(call, { ${places} }, keys, args, group) end`
    : 'call';
  if (group !== undefined && audits) {
    throw new Error(`${name}: a grouped script cannot write audit rows`);
  }
  if (group !== undefined) {
    return `function(keys, args) return ${GROUP_WRAPPER}(${decided}, keys, args) end`;
  }
  return audits ? `function(keys, args) return ${AUDIT_WRAPPER}(${decided}, keys, args) end` : decided;
}

function withWrappers(text: string, { group, attested }: ScriptHeader, audits: boolean): string {
  const includes = [
    ...(audits ? [`${AUDIT_PART}: ${AUDIT_WRAPPER}`] : []),
    ...(group === undefined ? [] : [`${GROUP_PART}: ${GROUP_WRAPPER}`]),
    ...(attested ? [`${ATTEST_PART}: ${ATTEST_WRAPPER}`] : []),
  ];
  return [text, ...includes.map((include) => `-- @include ${include}`)].join('\n');
}

const withoutComments = (code: string): string => code.replace(/^\s*--.*\n/gm, '');

/** A script's own code as a function. */
function callOf(text: string): string {
  const own = text.slice(text.indexOf('\n') + 1);
  return `local function call(KEYS, ARGV, group)\n${withoutComments(own)}\nend\n`;
}

/**
 * @param knownParts as in `partsOf`
 * @throws Error if the header is malformed, or an include does not exist.
 */
export function scriptOf(path: string, text: string, knownParts?: Map<string, string>): ScriptSource {
  const name = path.replace(/^.*\//, '').replace(/\.lua$/, '');
  const header = parseHeader(name, text);
  const parts = partsOf(text, undefined, knownParts);
  const audits = parts.has(AUDIT_PART);
  return {
    path,
    header,
    alternatives: parseReturns(header, new Map([...parts.values()].flatMap(shapesOf))),
    audits,
    text: withWrappers(text, header, audits),
  };
}

/** Where the library keeps what its parts share, by part and name. */
const SHARED = 'shared';

/** The names that a text includes, as locals. */
function includesOf(text: string): string {
  const names = [...usedNames([text])].flatMap(([part, used]) => used.map((name) => [part, name] as const));
  if (names.length === 0) {
    return '';
  }
  return `local ${names.map(([, name]) => name).join(', ')} = ${names.map(([part, name]) => `${SHARED}.${part}.${name}`).join(', ')}\n`;
}

/** A part as a field of `shared`: what is used of it, by name. A function of its own, because Lua allows 200 locals per function. */
function sharedPart(part: string, code: string, used: readonly string[]): string {
  const names = used.map((name) => `${name} = ${name}`).join(', ');
  return `${SHARED}.${part} = (function()\n${includesOf(code)}${withoutComments(code)}\nreturn { ${names} }\nend)()\n`;
}

/** A script's own code, and the functions that run it. */
function functionsOf({ text, header, audits }: ScriptSource, functionName: string): string {
  const flags = header.flags.map((flag) => `'${flag}'`).join(', ');
  const register = (name: string, isAttested: boolean): string =>
    `register{ function_name = '${name}', callback = ${runOf(header, audits, isAttested)}, flags = { ${flags} } }\n`;
  const functions = [
    register(functionName, false),
    ...(header.attested ? [register(`${functionName}_attested`, true)] : []),
  ];
  return `;(function()\n${includesOf(text)}${callOf(text)}${functions.join('')}end)()\n`;
}

/**
 * One library of all scripts, with each part once. The parts run when the library is loaded; only a script's own code runs per call. Redis has
 * one Lua heap for all functions: the less there is in it, the less the garbage collector has to walk, and scripts that share their parts
 * find them in the processor's caches.
 * @param knownParts as in `partsOf`
 */
export function libraryOf(
  scripts: readonly ScriptSource[],
  knownParts?: Map<string, string>,
): AssembledLibrary {
  const texts = scripts.map(({ text }) => text);
  const parts = partsOf(texts.join('\n'), undefined, knownParts);
  const used = usedNames([...texts, ...parts.values()]);
  const shared = [...parts].map(([part, code]) => sharedPart(part, code, used.get(part) as string[]));
  const libraryNamed = (digest: string): AssembledLibrary => {
    const functionNames = new Map(
      scripts.map(({ header: { name } }) => [name, `${LIBRARY_PREFIX}${name}_${digest}`]),
    );
    const functions = scripts.map((script) =>
      functionsOf(script, functionNames.get(script.header.name) as string),
    );
    const body = `local ${SHARED} = {}\n${shared.join('')}${functions.join('')}`;
    return { name: `${LIBRARY_PREFIX}${digest}`, body, commands: commandsIn(body), functionNames };
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
  const knownParts = new Map<string, string>();
  const scripts = [...scriptPaths().values()].map((path) => scriptOf(path, readLua(path), knownParts));
  return { scripts, library: libraryOf(scripts, knownParts) };
}
