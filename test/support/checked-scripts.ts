import { readScripts } from '../../src/redis/script-source.js';
import type { ScriptArgs, ScriptKeys, ScriptName } from '../../src/redis/script-call.js';
import { ScriptRegistry, type Reply } from '../../src/redis/scripts.js';

const scripts = readScripts();

/** @throws Error for a reply that is not as the script's header says. */
export function requireDeclared(name: ScriptName, reply: Reply): Reply {
  scripts.get(name)?.decode(reply);
  return reply;
}

/** The scripts as they are, but every reply that a test gets is held against the script's header. */
export class CheckedScripts extends ScriptRegistry {
  override async run<Name extends ScriptName>(
    name: Name,
    keys: ScriptKeys<Name>,
    args: ScriptArgs<Name>,
  ): Promise<Reply> {
    return requireDeclared(name, await super.run(name, keys, args));
  }
}
