import { createHash } from 'node:crypto';
import { groupOf, replyOf } from '../../src/redis/grouped-calls.js';
import { libraryText, type Runnable, type Script } from '../../src/redis/script-library.js';
import { type Arguments, type Reply, ScriptRegistry } from '../../src/redis/scripts.js';
import { LedgerClient } from './ledger-client.js';
import type { StoreClient } from './store.js';

const TIME = "redis.call('TIME')";
const texts = new Map<string, { text: string; digest: string }>();

/** The library with the time that the last argument but one gives: in seconds and microseconds, as Redis answers it. */
function textAt(flags: readonly string[]): { text: string; digest: string } {
  const known = texts.get(flags.join());
  if (known !== undefined) {
    return known;
  }
  const [shebang, ...body] = libraryText(flags).split('\n');
  const given =
    'local run = table.remove(ARGV)\nlocal given = cjson.decode(table.remove(ARGV))\nARGV[#ARGV + 1] = run';
  const text = [shebang, given, ...body].join('\n').replaceAll(TIME, 'given');
  const made = { text, digest: createHash('sha1').update(text).digest('hex') };
  texts.set(flags.join(), made);
  return made;
}

/** The scripts with a fixed reply to TIME; otherwise unchanged. */
class ScriptsAt extends ScriptRegistry {
  constructor(
    private readonly redis: StoreClient,
    private readonly nowMs: number,
  ) {
    super(redis);
  }

  protected override async send(script: Runnable | Script, keys: Arguments, args: Arguments): Promise<Reply> {
    const seconds = Math.floor(this.nowMs / 1000);
    const time = JSON.stringify([String(seconds), String((this.nowMs - seconds * 1000) * 1000)]);
    const isGrouped = script.group !== undefined;
    const sent = isGrouped ? groupOf([{ keys, args }]) : { keys, args };
    const { text, digest } = textAt(script.flags);
    const given = [sent.keys.length, ...sent.keys, ...sent.args, time, script.functionName] as const;
    const answer = (await this.redis.evalsha(digest, ...given).catch((error: Error) => {
      if (!error.message.startsWith('NOSCRIPT')) {
        throw error;
      }
      return this.redis.eval(text, ...given);
    })) as Reply;
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
