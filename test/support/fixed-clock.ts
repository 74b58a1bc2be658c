import { groupOf, replyOf } from '../../src/redis/grouped-calls.js';
import type { Runnable, Script } from '../../src/redis/script-source.js';
import { type Arguments, type Reply, ScriptRegistry } from '../../src/redis/scripts.js';
import { LedgerClient } from './ledger-client.js';
import type { StoreClient } from './store.js';

/** The scripts with a fixed reply to TIME; otherwise unchanged. */
class ScriptsAt extends ScriptRegistry {
  constructor(
    private readonly redis: StoreClient,
    private readonly nowMs: number,
  ) {
    super(redis);
  }

  protected override async send(script: Runnable | Script, keys: Arguments, args: Arguments): Promise<Reply> {
    const [shebang, ...body] = script.source().split('\n');
    const seconds = Math.floor(this.nowMs / 1000);
    const stand = `local server = redis
local redis = setmetatable({ call = function(command, ...)
  if command == 'TIME' then return { '${seconds}', '${(this.nowMs - seconds * 1000) * 1000}' } end
  return server.call(command, ...)
end }, { __index = server })`;
    const isGrouped = script.header.group !== undefined;
    const sent = isGrouped ? groupOf([{ keys, args }]) : { keys, args };
    const answer = (await this.redis.eval(
      [shebang, stand, ...body].join('\n'),
      sent.keys.length,
      ...sent.keys,
      ...sent.args,
    )) as Reply;
    const reply = isGrouped ? replyOf(answer[0] as string) : answer;
    if (reply instanceof Error) {
      throw reply;
    }
    // The last text of a script that may write audit rows is not part of its declared reply.
    const declared = script.audits ? reply.slice(0, -1) : reply;
    if ('decode' in script) {
      script.decode(declared);
    }
    return declared;
  }
}

/**
 * The same partition with the scripts' clock fixed at `nowMs`. Only this way can a test reach the exact
 * millisecond of a deadline. Tests of the clock itself must not use it.
 */
export function clockAt(ledger: LedgerClient, nowMs: number): LedgerClient {
  return new LedgerClient(ledger.redis, ledger.tag, ledger.tenant, new ScriptsAt(ledger.redis, nowMs));
}
