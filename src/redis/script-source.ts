import { createHash } from 'node:crypto';
import { partsOf, readLua, scriptPaths, usedNames } from './script-files.js';
import { camelCase, parseHeader, parseReturns, shapesOf, type ScriptHeader } from './script-header.js';
import { replyDecoder, type ReplyDecoder } from './script-reply.js';
import { SCRIPT_SIGNATURES, type ScriptSignature } from './script-types.js';

type Value = string | number;
type NamedValues = Readonly<Record<string, Value | readonly Value[]>>;

export interface Script {
  readonly header: ScriptHeader;
  /** Keys and arguments by name, in the order of the header. */
  readonly keysOf: (keys: NamedValues) => Value[];
  readonly argsOf: (args: NamedValues) => Value[];
  /** A reply by the names in the header; throws where it does not fit. */
  readonly decode: ReplyDecoder;
  /** The whole text, as EVAL takes it. */
  readonly source: string;
  /** The name of its function and of the library that holds it; it changes with the text. */
  readonly functionName: string;
  /** The same text as a library for FUNCTION LOAD. */
  readonly library: string;
  /** Whether it may write rows of the audit log, and so tells behind each reply whether it did; see lua/lib/append_audit.lua. */
  readonly audits: boolean;
}

/** What the names of all libraries of Holdfast start with. */
export const LIBRARY_PREFIX = 'holdfast_';

const AUDIT_PART = 'append_audit';
const AUDIT_WRAPPER = 'with_audited_request';

const GROUP_PART = 'group';
const GROUP_WRAPPER = 'run_calls';
/** The script's own code is one call of several. */
const GROUPED_RUN = `local function run(KEYS, ARGV)\nreturn ${GROUP_WRAPPER}(call, KEYS, ARGV)\nend\n`;

function tellingAudited(own: string): string {
  return `local function audited_run(KEYS, ARGV)\n${own}\nend\nreturn ${AUDIT_WRAPPER}(audited_run, KEYS, ARGV)\n`;
}

function inOrder(names: readonly string[], rest: boolean): (named: NamedValues) => Value[] {
  const fields = names.map(camelCase);
  return (named) => {
    const list = fields.map((field) => named[field] as Value);
    return rest ? list.concat(named['rest'] ?? []) : list;
  };
}

/** In a function of its own, as Lua allows 200 locals in one: what nobody else uses of the part does not count for the script. */
function partCode(code: string, names: readonly string[]): string {
  return `local ${names.join(', ')} = (function()\n${code}\nreturn ${names.join(', ')}\nend)()`;
}

/**
 * Puts the included parts, each once and after what it includes itself, between a script's header and its code.
 * @param knownParts as in `partsOf`
 */
export function assemble(name: string, text: string, knownParts?: Map<string, string>): Script {
  const header = parseHeader(name, text);
  const collected = partsOf(text, undefined, knownParts);
  const strip = (part: string): string => part.replace(/^\s*--.*\n/gm, '');
  const [shebang, ...rest] = text.split('\n');
  const ownCode = strip(rest.join('\n'));
  const audits = collected.has(AUDIT_PART);
  const own = audits ? tellingAudited(ownCode) : ownCode;
  const used = usedNames([text, ...collected.values()]);
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
  const functionName = `${LIBRARY_PREFIX}${name}_${createHash('sha256').update(source).digest('hex').slice(0, 12)}`;
  const returns = parseReturns(header, new Map([...collected.values()].flatMap(shapesOf)));
  return {
    header,
    keysOf: inOrder(header.keys, false),
    argsOf: inOrder(header.args, header.rest),
    decode: replyDecoder(name, returns),
    source,
    functionName,
    library: libraryOf(header, functionName, body),
    audits,
  };
}

/** The parts are run once, when the library is loaded; the script's own code is the function. */
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
 * @throws Error when a header and a signature differ, or a script has no signature or a signature no script.
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
