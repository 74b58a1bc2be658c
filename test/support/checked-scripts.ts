import type { Runnable, Script } from '../../src/redis/script-library.js';
import { type Arguments, type Reply, ScriptRegistry } from '../../src/redis/scripts.js';

/** The unchanged scripts, with every reply checked against the script's header. */
export class CheckedScripts extends ScriptRegistry {
  protected override async send(script: Runnable | Script, keys: Arguments, args: Arguments): Promise<Reply> {
    const reply = await super.send(script, keys, args);
    if ('decode' in script) {
      script.decode(reply);
    }
    return reply;
  }
}
