import { Command } from 'ioredis';
import type { Span, Tracing } from '../telemetry/index.js';
import type { Runnable } from './script-library.js';
import type { Argument, ScriptContracts, ScriptName } from './script-types.js';

export type { Argument, ScriptContracts, ScriptName } from './script-types.js';

export type Arguments = readonly Argument[];

/** A reply of Redis. `ScriptRegistry.call` decodes it to an object, as the script's header describes. */
export type Reply = string[];

/** The keys of a script by the names in its header. */
export type NamedKeys<Name extends ScriptName> = ScriptContracts[Name]['keys'];
/** The arguments of a script by the names in its header; `rest` are those after the named ones. */
export type NamedArgs<Name extends ScriptName> = ScriptContracts[Name]['args'];

/** The reply of a script, by the names in its header. */
export type ScriptReply<Name extends ScriptName> = ScriptContracts[Name]['reply'];

/** The replies of a script with this status word. */
export type ScriptAnswer<Name extends ScriptName, Status extends string> = Extract<
  ScriptReply<Name>,
  { readonly status: Status }
>;

/** The keys of a script, as a list for Redis. */
export type ScriptKeys<Name extends ScriptName> = Readonly<ScriptContracts[Name]['keyList']>;
/** The arguments of a script, as a list for Redis. */
export type ScriptArgs<Name extends ScriptName> = Readonly<ScriptContracts[Name]['argList']>;

/**
 * A span for one call of a script, or for several in one pipeline, if the calling code runs in one. Named after OpenTelemetry's
 * conventions for calls of databases. Keys and arguments are not part of it.
 */
export function spanOfCall(tracing: Tracing, { name }: Runnable, calls?: number): Span | undefined {
  if (!tracing.isOn) {
    return undefined;
  }
  return tracing.child(name, {
    kind: 'client',
    attributes: {
      'db.system.name': 'redis',
      'db.operation.name': 'FCALL',
      'db.stored_procedure.name': name,
      'db.operation.batch.size': calls,
    },
  });
}

/** The status word of a reply, if it begins with one. */
export function statusIn([first = '']: readonly string[]): string | undefined {
  return /^[A-Z][A-Z_]*$/.test(first) ? first : undefined;
}

/** The lengths of most arguments, as Redis reads them. */
const LENGTHS = Array.from({ length: 256 }, (_, length) => `$${length}\r\n`);

/**
 * FCALL, encoded in one step. A run of a group has some 450 arguments. ioredis flattens, checks, measures and appends each by itself,
 * which took a tenth of a request's time.
 */
export class FunctionCall extends Command {
  constructor(functionName: string, keys: Arguments, args: Arguments) {
    super('fcall', [], { replyEncoding: 'utf8' });
    const all: Argument[] = [functionName, keys.length];
    this.args = all.concat(keys, args).map((arg) => (typeof arg === 'string' ? arg : String(arg)));
  }

  override toWritable(socket: object): string | Buffer {
    const args = this.args as string[];
    let text = `*${args.length + 1}\r\n$5\r\nfcall\r\n`;
    for (const arg of args) {
      text += `${LENGTHS[arg.length] ?? `$${arg.length}\r\n`}${arg}\r\n`;
    }
    // Redis counts bytes. Beyond ASCII, they are more than the characters.
    return Buffer.byteLength(text) === text.length ? text : super.toWritable(socket);
  }
}
