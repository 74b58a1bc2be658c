import { createHash } from 'node:crypto';
import { partsOf, readLua, scriptPaths, usedNames } from './script-files.js';
import { camelCase, parseHeader, parseReturns, shapesOf, type ScriptHeader } from './script-header.js';
import { replyDecoder, type ReplyDecoder } from './script-reply.js';
import { SCRIPT_SIGNATURES, type ScriptSignature } from './script-types.js';

type Value = string | number;
type NamedValues = Readonly<Record<string, Value | readonly Value[]>>;

/** A script's text, in the two forms that Redis runs. */
export interface Runnable {
  readonly header: ScriptHeader;
  /** The whole text for EVAL. */
  readonly source: string;
  /** The name of the function and of its library. It changes with the text. */
  readonly functionName: string;
  /** The same text as a library for FUNCTION LOAD. */
  readonly library: string;
  /** Whether it may write audit rows. Each of its replies then ends with an additional text; see lua/lib/append_audit.lua. */
  readonly audits: boolean;
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

/** The common prefix of the names of Holdfast's libraries. */
export const LIBRARY_PREFIX = 'holdfast_';

const AUDIT_PART = 'append_audit';
const AUDIT_WRAPPER = 'with_audited_request';

const GROUP_PART = 'group';
const GROUP_WRAPPER = 'run_calls';
/** For a grouped script, `call` is one of several calls in a run. */
const GROUPED_RUN = `local function run(KEYS, ARGV)\nreturn ${GROUP_WRAPPER}(call, KEYS, ARGV)\nend\n`;

function tellingAudited(own: string): string {
  return `local function audited_run(KEYS, ARGV)\n${own}\nend\nreturn ${AUDIT_WRAPPER}(audited_run, KEYS, ARGV)\n`;
}

const ATTEST_PART = 'attest';
const ATTEST_WRAPPER = 'attested_reply';

/** The code of a script as the attested function has it: the stamp comes before what tells of audit rows. */
function stamping({ keys, args, group }: ScriptHeader, own: string): string {
  const place = (names: readonly string[], name: string): number => names.indexOf(name) + 1;
  const places = `idempotency = ${place(keys, 'idempotency')}, fingerprint = ${place(args, 'fingerprint')}, trace = ${place(args, 'trace')}`;
  return `local function decided(KEYS, ARGV, group)\n${own}\nend\nreturn ${ATTEST_WRAPPER}(decided, { ${places} }, KEYS, ARGV, ${group === undefined ? 'nil' : 'group'})\n`;
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

/**
 * Inserts the included parts between a script's header and its code, each once and after its own includes.
 * @param knownParts as in `partsOf`
 */
export function assemble(name: string, text: string, knownParts?: Map<string, string>): Script {
  const header = parseHeader(name, text);
  const returns = parseReturns(
    header,
    new Map([...partsOf(text, undefined, knownParts).values()].flatMap(shapesOf)),
  );
  return {
    ...runnable(header, text, false, knownParts),
    keysOf: inOrder(header.keys, false),
    argsOf: inOrder(header.args, header.rest),
    decode: replyDecoder(name, returns),
    attested: header.attested ? runnable(header, text, true, knownParts) : undefined,
  };
}

function runnable(
  header: ScriptHeader,
  text: string,
  isAttested: boolean,
  knownParts: Map<string, string> | undefined,
): Runnable {
  const including = isAttested ? `${text}\n-- @include ${ATTEST_PART}: ${ATTEST_WRAPPER}\n` : text;
  const collected = partsOf(including, undefined, knownParts);
  const strip = (part: string): string => part.replace(/^\s*--.*\n/gm, '');
  const [shebang, ...rest] = text.split('\n');
  const ownCode = strip(rest.join('\n'));
  const audits = collected.has(AUDIT_PART);
  const decided = isAttested ? stamping(header, ownCode) : ownCode;
  const own = audits ? tellingAudited(decided) : decided;
  const used = usedNames([including, ...collected.values()]);
  const uses = (part: string, name: string): void => void used.set(part, [...(used.get(part) ?? []), name]);
  if (audits) {
    uses(AUDIT_PART, AUDIT_WRAPPER);
  }
  if (header.group !== undefined) {
    uses(GROUP_PART, GROUP_WRAPPER);
  }
  const parts = [...collected].map(([part, code]) => partCode(strip(code), used.get(part) ?? [])).join('\n');
  const body =
    header.group === undefined
      ? `${parts}\nlocal function run(KEYS, ARGV)\n${own}\nend\n`
      : `${parts}\nlocal function call(KEYS, ARGV, group)\n${own}\nend\n${GROUPED_RUN}`;
  const source = `${shebang}\n${body}return run(KEYS, ARGV)\n`;
  const functionName = `${LIBRARY_PREFIX}${header.name}_${createHash('sha256').update(source).digest('hex').slice(0, 12)}`;
  return { header, source, functionName, library: libraryOf(header, functionName, body), audits };
}

/** The parts run once, when the library is loaded. Only the script's own code runs per call. */
function libraryOf({ flags }: ScriptHeader, functionName: string, body: string): string {
  const names = flags.map((flag) => `'${flag}'`).join(', ');
  return `#!lua name=${functionName}
${body}redis.register_function{ function_name = '${functionName}', callback = run, flags = { ${names} } }
`;
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
 * Reads every script, checks that src/redis/script-types.ts was generated from its header, and assembles it.
 * @throws Error if a header and its signature differ, or one exists without the other.
 */
export function readScripts(
  signatures: Record<string, ScriptSignature> = SCRIPT_SIGNATURES,
): Map<string, Script> {
  const paths = scriptPaths();
  const missing = Object.keys(signatures).filter((name) => !paths.has(name));
  if (missing.length > 0) {
    throw new Error(`signatures without a script: ${missing.join(', ')}`);
  }
  const scripts = new Map<string, Script>();
  const knownParts = new Map<string, string>();
  for (const [name, path] of paths) {
    const signature = signatures[name];
    if (signature === undefined) {
      throw new Error(`lua/${path} has no signature`);
    }
    const script = assemble(name, readLua(path), knownParts);
    assertSame(path, script.header, signature);
    scripts.set(name, script);
  }
  return scripts;
}
