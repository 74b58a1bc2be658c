import { createHash } from 'node:crypto';
import { partsOf, readLua, scriptPaths, usedNames } from './script-files.js';
import { camelCase, parseHeader, parseReturns, shapesOf, type ScriptHeader } from './script-header.js';
import { replyDecoder, type ReplyDecoder } from './script-reply.js';
import { SCRIPT_SIGNATURES, type ScriptSignature } from './script-types.js';

type Value = string | number;
type NamedValues = Readonly<Record<string, Value | readonly Value[]>>;

/** A script's text. */
export interface ScriptText {
  readonly header: ScriptHeader;
  /** The whole text for EVAL, which is rarely needed. */
  readonly source: () => string;
  /** Whether it may write audit rows. Each of its replies then ends with an additional text; see lua/lib/append_audit.lua. */
  readonly audits: boolean;
}

/** A script that Redis has as a function. */
export interface Runnable extends ScriptText {
  readonly functionName: string;
}

export interface Script extends Runnable {
  /** Keys and arguments by name, in the order of the header. */
  readonly keysOf: (keys: NamedValues) => Value[];
  readonly argsOf: (args: NamedValues) => Value[];
  /** Decodes a reply to the names in the header. Throws if it does not match. */
  readonly decode: ReplyDecoder;
  /** The same script with a stamp behind each reply; see lua/lib/attest.lua. */
  readonly attested: Runnable | undefined;
}

/** All scripts in one library for FUNCTION LOAD, and what to call its functions. The names change with the code. */
export interface ScriptLibrary {
  readonly name: string;
  readonly code: string;
  readonly scripts: ReadonlyMap<string, Script>;
  /** Every command that a script calls by name, with its subcommand if it has some. */
  readonly commands: readonly string[];
}

/** The common prefix of the names of Holdfast's libraries and functions. */
export const LIBRARY_PREFIX = 'holdfast_';

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

/** A script's text with includes of everything that runs it. */
function withWrappers(text: string, { group }: ScriptHeader, audits: boolean, isAttested: boolean): string {
  const includes = [
    ...(audits ? [`${AUDIT_PART}: ${AUDIT_WRAPPER}`] : []),
    ...(group === undefined ? [] : [`${GROUP_PART}: ${GROUP_WRAPPER}`]),
    ...(isAttested ? [`${ATTEST_PART}: ${ATTEST_WRAPPER}`] : []),
  ];
  return [text, ...includes.map((include) => `-- @include ${include}`)].join('\n');
}

const withoutComments = (code: string): string => code.replace(/^\s*--.*\n/gm, '');

/** A script's own code as a function. */
function callOf(text: string): string {
  const own = text.slice(text.indexOf('\n') + 1);
  return `local function call(KEYS, ARGV, group)\n${withoutComments(own)}\nend\n`;
}

function inOrder(names: readonly string[], rest: boolean): (named: NamedValues) => Value[] {
  const fields = names.map(camelCase);
  return (named) => {
    const list = fields.map((field) => named[field] as Value);
    return rest ? list.concat(named['rest'] ?? []) : list;
  };
}

/** Wraps a part in a function, because Lua allows 200 locals per function: the part's other locals do not count for the script. */
function partCode(code: string, names: readonly string[]): string {
  return `local ${names.join(', ')} = (function()\n${code}\nreturn ${names.join(', ')}\nend)()`;
}

type AssembledScript = Omit<Script, 'functionName' | 'attested'> & {
  /** With includes of everything that runs it. */
  readonly text: string;
  readonly attested: ScriptText | undefined;
};

/**
 * Inserts the included parts between a script's header and its code, each once and after its own includes.
 * @param knownParts as in `partsOf`
 */
export function assemble(name: string, text: string, knownParts?: Map<string, string>): AssembledScript {
  const header = parseHeader(name, text);
  const parts = partsOf(text, undefined, knownParts);
  const returns = parseReturns(header, new Map([...parts.values()].flatMap(shapesOf)));
  const audits = parts.has(AUDIT_PART);
  return {
    ...scriptText(header, text, audits, false, knownParts),
    text: withWrappers(text, header, audits, header.attested),
    keysOf: inOrder(header.keys, false),
    argsOf: inOrder(header.args, header.rest),
    decode: replyDecoder(name, returns),
    attested: header.attested ? scriptText(header, text, audits, true, knownParts) : undefined,
  };
}

function scriptText(
  header: ScriptHeader,
  text: string,
  audits: boolean,
  isAttested: boolean,
  knownParts: Map<string, string> | undefined,
): ScriptText {
  const assembled = (): string => {
    const including = withWrappers(text, header, audits, isAttested);
    const collected = partsOf(including, undefined, knownParts);
    const used = usedNames([including, ...collected.values()]);
    const [shebang] = text.split('\n');
    const parts = [...collected].map(([part, code]) =>
      partCode(withoutComments(code), used.get(part) as string[]),
    );
    const run = `local run = ${runOf(header, audits, isAttested)}`;
    return [shebang, ...parts, callOf(text), run, 'return run(KEYS, ARGV)\n'].join('\n');
  };
  let known: string | undefined;
  return { header, source: () => (known ??= assembled()), audits };
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

/** A part as a field of `shared`: what is used of it, by name. */
function sharedPart(part: string, code: string, used: readonly string[]): string {
  const names = used.map((name) => `${name} = ${name}`).join(', ');
  return `${SHARED}.${part} = (function()\n${includesOf(code)}${withoutComments(code)}\nreturn { ${names} }\nend)()\n`;
}

/** A script's own code, and the functions that run it. */
function functionsOf({ text, header, audits, functionName, attested }: NamedScript): string {
  const flags = header.flags.map((flag) => `'${flag}'`).join(', ');
  const register = (name: string, isAttested: boolean): string =>
    `redis.register_function{ function_name = '${name}', callback = ${runOf(header, audits, isAttested)}, flags = { ${flags} } }\n`;
  const functions = [
    register(functionName, false),
    ...(attested ? [register(attested.functionName, true)] : []),
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
  assembled: ReadonlyMap<string, AssembledScript>,
  knownParts?: Map<string, string>,
): ScriptLibrary {
  const texts = [...assembled.values()].map(({ text }) => text);
  const parts = partsOf(texts.join('\n'), undefined, knownParts);
  const used = usedNames([...texts, ...parts.values()]);
  const shared = [...parts].map(([part, code]) => sharedPart(part, code, used.get(part) as string[]));
  const libraryNamed = (digest: string): ScriptLibrary => {
    const name = `${LIBRARY_PREFIX}${digest}`;
    const scripts = new Map([...assembled].map(([key, script]) => [key, named(script, digest)]));
    const functions = [...scripts.values()].map(functionsOf);
    const code = `#!lua name=${name}\nlocal ${SHARED} = {}\n${shared.join('')}${functions.join('')}`;
    return { name, code, scripts, commands: commandsIn(code) };
  };
  return libraryNamed(digestOf(libraryNamed('').code));
}

const LIBRARY_NAME = new RegExp(`^${LIBRARY_PREFIX}([0-9a-f]{12})$`);

function digestOf(nameless: string): string {
  return createHash('sha256').update(nameless).digest('hex').slice(0, 12);
}

/** Whether any version of Holdfast made a library: its name has the hash of its code without that name. */
export function isOwnLibrary(name: string, code: string): boolean {
  const digest = LIBRARY_NAME.exec(name)?.[1];
  return digest !== undefined && digestOf(code.replaceAll(digest, '')) === digest;
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

type NamedScript = Script & Pick<AssembledScript, 'text'>;

function named(script: AssembledScript, digest: string): NamedScript {
  const functionName = `${LIBRARY_PREFIX}${script.header.name}_${digest}`;
  const { attested } = script;
  return {
    ...script,
    functionName,
    attested: attested && { ...attested, functionName: `${functionName}_attested` },
  };
}

function assertSame(path: string, header: ScriptHeader, signature: ScriptSignature): void {
  const { keys, args, rest, flags, returns } = header;
  const described = JSON.stringify({ keys, args, rest, flags, returns });
  const { keys: k, args: a, rest: r, flags: f, returns: o } = signature;
  if (described !== JSON.stringify({ keys: k, args: a, rest: r === true, flags: f, returns: o })) {
    throw new Error(
      `lua/${path} and its signature differ: npm run generate, then build. Its header: ${described}`,
    );
  }
}

/**
 * Reads every script, checks that src/redis/script-types.ts was generated from its header, and assembles all of them.
 * @throws Error if a header and its signature differ, or one exists without the other.
 */
export function readLibrary(signatures: Record<string, ScriptSignature> = SCRIPT_SIGNATURES): ScriptLibrary {
  const paths = scriptPaths();
  const missing = Object.keys(signatures).filter((name) => !paths.has(name));
  if (missing.length > 0) {
    throw new Error(`signatures without a script: ${missing.join(', ')}`);
  }
  const assembled = new Map<string, AssembledScript>();
  const knownParts = new Map<string, string>();
  for (const [name, path] of paths) {
    const signature = signatures[name];
    if (signature === undefined) {
      throw new Error(`lua/${path} has no signature`);
    }
    const script = assemble(name, readLua(path), knownParts);
    assertSame(path, script.header, signature);
    assembled.set(name, script);
  }
  return libraryOf(assembled, knownParts);
}
