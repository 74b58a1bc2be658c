import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { sep } from 'node:path';
import { SCRIPT_SIGNATURES, type ScriptSignature } from './script-signatures.js';

/** The scripts stand beside both `src` and `dist`, so this finds them however the service is started. */
const LUA_DIRECTORY = new URL('../../lua/', import.meta.url);

/** Holds the parts that scripts include. Every other folder of `lua` is a capability and holds a script for each operation. */
const LIBRARY = 'lib';

export interface ScriptHeader {
  readonly name: string;
  readonly flags: readonly string[];
  readonly keys: readonly string[];
  readonly args: readonly string[];
  readonly rest: boolean;
  readonly returns: string;
  readonly emits: string;
  /** What the work of one run is bounded by. */
  readonly bound: string;
  readonly includes: readonly string[];
}

export interface Script {
  readonly header: ScriptHeader;
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

function includesOf(text: string): string[] {
  const names = /^-- @include\s+(.+)$/m.exec(text)?.[1];
  return names === undefined ? [] : names.split(',').map((name) => name.trim());
}

function numbered(text: string, kind: 'KEYS' | 'ARGV', name: string): string[] {
  return [...text.matchAll(new RegExp(`^-- ${kind}\\[(\\d+)\\]\\s+(\\w+)`, 'gm'))].map((match, index) => {
    if (Number(match[1]) !== index + 1) {
      throw new Error(`${name}.lua: ${kind}[${match[1]}] is out of order in the header`);
    }
    return match[2] as string;
  });
}

/**
 * Reads the contract at the top of a script.
 * @throws Error when a part of the header is missing.
 */
export function parseHeader(name: string, text: string): ScriptHeader {
  const shebang = /^#!lua(?: flags=([a-z,-]+))?\n/.exec(text);
  const title = new RegExp(`^-- ${name}: \\S`, 'm');
  const returns = /^-- RETURNS\s+(.+)$/m.exec(text)?.[1];
  const bound = /^-- BOUND\s+(.+)$/m.exec(text)?.[1];
  const emits = /^-- EMITS\s+(.+)$/m.exec(text)?.[1];
  if (
    shebang === null ||
    !title.test(text) ||
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
    flags: shebang[1]?.split(',') ?? [],
    keys: numbered(text, 'KEYS', name),
    args: numbered(text, 'ARGV', name),
    rest: /^-- ARGV\[\.\.\.\]/m.test(text),
    returns,
    emits,
    bound,
    includes: includesOf(text),
  };
}

function readLua(path: string): string {
  return readFileSync(new URL(path, LUA_DIRECTORY), 'utf8');
}

function collectIncludes(names: readonly string[], into: Map<string, string>, path: readonly string[]): void {
  for (const name of names) {
    if (path.includes(name)) {
      throw new Error(`lua/${LIBRARY}/${name}.lua includes itself through ${path.join(' -> ')}`);
    }
    if (!into.has(name)) {
      const text = readLua(`${LIBRARY}/${name}.lua`);
      collectIncludes(includesOf(text), into, [...path, name]);
      into.set(name, text);
    }
  }
}

/** One function at the top level of a part, on one line or ending with an `end` in the first column. */
const TOP_LEVEL_FUNCTION = /^local function (\w+)\(.*(?:\bend|\n(?:[ \t].*\n|\n)*end)$/gm;

/** Leaves out the included functions that nothing in the script calls: a commit needs half of what its parts define. */
function withoutUnused(text: string): string {
  for (;;) {
    const words = new Map<string, number>();
    for (const [word] of text.matchAll(/\w+/g)) {
      words.set(word, (words.get(word) ?? 0) + 1);
    }
    const shorter = text.replace(TOP_LEVEL_FUNCTION, (definition: string, name: string) => {
      const inside = definition.match(new RegExp(`\\b${name}\\b`, 'g'))?.length ?? 0;
      return words.get(name) === inside ? '' : definition;
    });
    if (shorter === text) {
      return text;
    }
    text = shorter;
  }
}

/** Between the parts and the script's own code, while it is put together. */
const OWN_CODE = '-- own code\n';

const AUDIT_PART = 'append_audit';

function tellingAudited(own: string): string {
  return `local function audited_run(KEYS, ARGV)\n${own}\nend\nreturn with_audited_request(audited_run, KEYS, ARGV)\n`;
}

/** Puts the included parts, each once and after what it includes itself, between a script's header and its code. */
export function assemble(name: string, text: string): Script {
  const header = parseHeader(name, text);
  const collected = new Map<string, string>();
  collectIncludes(header.includes, collected, []);
  const strip = (part: string): string => part.replace(/^\s*--.*\n/gm, '');
  const [shebang, ...rest] = text.split('\n');
  const ownCode = strip(rest.join('\n'));
  const audits = collected.has(AUDIT_PART);
  const told = audits ? tellingAudited(ownCode) : ownCode;
  const whole = withoutUnused([...collected.values()].map(strip).join('\n') + OWN_CODE + told);
  const [parts = '', own = ''] = whole.split(OWN_CODE);
  const source = `${shebang}\n${parts}${own}`;
  const functionName = `${LIBRARY_PREFIX}${name}_${createHash('sha256').update(source).digest('hex').slice(0, 12)}`;
  return { header, source, functionName, library: libraryOf(header, functionName, parts, own), audits };
}

/** The parts are run once, when the library is loaded; the script's own code is the function. */
function libraryOf({ flags }: ScriptHeader, functionName: string, parts: string, own: string): string {
  return `#!lua name=${functionName}
${parts}
local function run(KEYS, ARGV)
${own}
end
redis.register_function{ function_name = '${functionName}', callback = run, flags = { ${flags.map((flag) => `'${flag}'`).join(', ')} } }
`;
}

function assertSame(path: string, header: ScriptHeader, signature: ScriptSignature): void {
  const described = JSON.stringify([header.keys, header.args, header.rest, header.flags]);
  const declared = JSON.stringify([signature.keys, signature.args, signature.rest === true, signature.flags]);
  if (described !== declared) {
    throw new Error(`lua/${path} and its signature differ: header ${described}, signature ${declared}`);
  }
}

/**
 * The path of every script by its name, relative to the folder of all.
 * @throws Error when two folders hold a script of one name.
 */
export function scriptPaths(directory = LUA_DIRECTORY): Map<string, string> {
  const paths = new Map<string, string>();
  for (const path of readdirSync(directory, { recursive: true, encoding: 'utf8' }).sort()) {
    const [folder, file] = path.split(sep);
    if (folder === LIBRARY || file === undefined || !file.endsWith('.lua')) {
      continue;
    }
    const name = file.slice(0, -'.lua'.length);
    const other = paths.get(name);
    if (other !== undefined) {
      throw new Error(`lua/${other} and lua/${folder}/${file} are scripts of one name`);
    }
    paths.set(name, `${folder}/${file}`);
  }
  return paths;
}

/**
 * Reads every script, checks it against its signature, and assembles it.
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
  for (const [name, path] of paths) {
    const script = assemble(name, readLua(path));
    const signature = signatures[name];
    if (signature === undefined) {
      throw new Error(`lua/${path} has no signature`);
    }
    assertSame(path, script.header, signature);
    scripts.set(name, script);
  }
  return scripts;
}
