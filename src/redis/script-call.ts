import { SCRIPT_SIGNATURES, type ScriptReplies } from './script-types.js';

type Signatures = typeof SCRIPT_SIGNATURES;
export type Argument = string | number;

export type Arguments = readonly Argument[];

/** A reply of Redis. `ScriptRegistry.call` decodes it to an object, as the script's header describes. */
export type Reply = string[];

export type ScriptName = keyof Signatures;

/** A name in camel case. At run time, `camelCase` in script-header.ts does the same. */
type CamelCase<Name extends string> = Name extends `${infer First}_${infer Rest}`
  ? `${First}${Capitalize<CamelCase<Rest>>}`
  : Name;

type Named<Names extends readonly string[], Value> = {
  readonly [Name in Names[number] as CamelCase<Name>]: Value;
};
type Listed<Names extends readonly string[]> = { [Index in keyof Names]: Argument };

/** The keys of a script by the names in its header. */
export type NamedKeys<Name extends ScriptName> = Named<Signatures[Name]['keys'], string>;
/** The arguments of a script by the names in its header; `rest` are those after the named ones. */
export type NamedArgs<Name extends ScriptName> = Named<Signatures[Name]['args'], Argument> &
  (Signatures[Name] extends { rest: true } ? { readonly rest: readonly Argument[] } : unknown);

/** The reply of a script, by the names in its header. */
export type ScriptReply<Name extends ScriptName> = ScriptReplies[Name];

/** The replies of a script with this status word. */
export type ScriptAnswer<Name extends ScriptName, Status extends string> = Extract<
  ScriptReplies[Name],
  { readonly status: Status }
>;

/** The keys of a script, as a list for Redis. */
export type ScriptKeys<Name extends ScriptName> = Listed<Signatures[Name]['keys']>;
/** The arguments of a script, as a list for Redis. */
export type ScriptArgs<Name extends ScriptName> = Signatures[Name] extends { rest: true }
  ? [...Listed<Signatures[Name]['args']>, ...Argument[]]
  : Listed<Signatures[Name]['args']>;
