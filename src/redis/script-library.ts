import { hash } from 'node:crypto';
import { type Fields, decodeReply } from './reply-reader.js';
import {
  LIBRARY_BODY,
  LIBRARY_NAME,
  type ScriptEntry,
  type ScriptName,
  SCRIPTS,
  TEST_CLOCK,
} from './script-types.js';

const LIBRARY_PREFIX = 'holdfast_';

/** A function of the library. */
export interface Runnable extends Pick<ScriptEntry, 'functionName' | 'flags' | 'group' | 'audits'> {
  readonly name: string;
}

export interface Script extends Runnable, Pick<ScriptEntry, 'keysOf' | 'argsOf'> {
  /** Decodes a reply to the names in the header. @throws Error if it does not match. */
  readonly decode: (reply: readonly string[]) => Fields;
  /** The same script with a stamp behind each reply; see lua/lib/attest.lua. */
  readonly attested: Runnable | undefined;
  /** The function for calls that are granted together or not at all, without and with stamps; see lua/ledger/lib/all_or_none.lua. */
  readonly set: { readonly plain: Runnable; readonly attested: Runnable } | undefined;
}

/** All scripts as functions of one library of Redis. The names change with the code. */
export interface Library {
  readonly name: string;
  readonly body: string;
  /** For FUNCTION LOAD. */
  readonly code: string;
  readonly scripts: ReadonlyMap<string, Script>;
}

export const LIBRARY: Library = {
  name: LIBRARY_NAME,
  body: LIBRARY_BODY,
  code: codeOf(LIBRARY_NAME, LIBRARY_BODY),
  scripts: new Map(
    Object.entries(SCRIPTS).map(([name, entry]) => [name, scriptOf(name as ScriptName, entry)]),
  ),
};

function codeOf(name: string, body: string): string {
  return `#!lua name=${name}\nlocal register = redis.register_function\n${body}`;
}

/**
 * The library of a deployment with a test clock: the same one, and behind it lua/clock/lib/test_clock.lua, which replaces the functions that read the
 * time. Its code and so its names are others, so it never stands in for that of production.
 */
export function libraryWithTestClock(): Library {
  const plain = LIBRARY_NAME.slice(LIBRARY_PREFIX.length);
  const body = `${LIBRARY_BODY}${TEST_CLOCK}`;
  const own = digestOf(codeOf(LIBRARY_PREFIX, body.replaceAll(plain, '')));
  const renamed = (text: string): string => text.replaceAll(plain, own);
  const renamedScript = <Kind extends Runnable>(script: Kind): Kind => ({
    ...script,
    functionName: renamed(script.functionName),
  });
  const name = renamed(LIBRARY_NAME);
  return {
    name,
    body: renamed(body),
    code: codeOf(name, renamed(body)),
    scripts: new Map(
      [...LIBRARY.scripts].map(([script, { attested, set, ...rest }]) => [
        script,
        {
          ...renamedScript(rest),
          attested: attested && renamedScript(attested),
          set: set && { plain: renamedScript(set.plain), attested: renamedScript(set.attested) },
        },
      ]),
    ),
  };
}

function scriptOf(name: ScriptName, entry: ScriptEntry): Script {
  const { functionName, flags, group, audits, keysOf, argsOf } = entry;
  const alone: Runnable = { name, functionName, flags, audits };
  const runnable: Runnable = { ...alone, ...(group === undefined ? {} : { group }) };
  const setFunction = (suffix: string): Runnable => ({ ...alone, functionName: `${functionName}${suffix}` });
  return {
    ...runnable,
    keysOf,
    argsOf,
    decode: (reply) => decodeReply(name, entry.decode, reply),
    attested: entry.attested ? { ...runnable, functionName: `${functionName}_attested` } : undefined,
    set: entry.set ? { plain: setFunction('_set'), attested: setFunction('_set_attested') } : undefined,
  };
}

/**
 * The whole library as a text for EVAL, which runs the function that the last argument names. There is one text for all functions with the same
 * flags, because Redis keeps the texts that it has run.
 */
export function libraryText(flags: readonly string[], body = LIBRARY_BODY): string {
  const shebang = flags.length === 0 ? '#!lua' : `#!lua flags=${flags.join(',')}`;
  return `${shebang}
local functions = {}
local function register(one) functions[one.function_name] = one.callback end
${body}
return functions[table.remove(ARGV)](KEYS, ARGV)
`;
}

/** The names that a library of Holdfast can have. A name alone proves nothing. */
export const LIBRARY_PATTERN = `${LIBRARY_PREFIX}*`;
const OWN_NAME = new RegExp(`^${LIBRARY_PREFIX}([0-9a-f]{12})$`);

/** Whether any version of Holdfast made a library: its name has the hash of its code without that name. */
export function isOwnLibrary(name: string, code: string): boolean {
  const digest = OWN_NAME.exec(name)?.[1];
  return digest !== undefined && digestOf(code.replaceAll(digest, '')) === digest;
}

function digestOf(code: string): string {
  return hash('sha256', code).slice(0, 12);
}
