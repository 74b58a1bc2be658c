import { groupOf, textsIn } from '../../src/redis/grouped-calls.js';
import { LIBRARY, type Script } from '../../src/redis/script-library.js';
import type { Reply } from '../../src/redis/scripts.js';
import { CollectedCalls } from '../property/group-sides.js';
import { type LedgerClient, randomText, type ReserveOptions } from './ledger-client.js';

/** What a run for a set answers: the refused member, if any, the id of a replayed set, and the replies. */
export interface SetAnswer {
  readonly refused: number | undefined;
  readonly earlierId: string;
  readonly replies: readonly Reply[];
}

export interface SetOptions {
  readonly id?: string;
  readonly fingerprint?: string;
  /** Of a library with another clock. */
  readonly script?: Script | undefined;
}

const FINGERPRINT = 0;

/**
 * Reserves together as the service does: each member names the set, and all have one fingerprint. Sends the command before it returns, for tests that
 * send many before the first reply.
 */
export async function reserveSet(
  ledger: LedgerClient,
  members: readonly ReserveOptions[],
  { id = `set_${randomText(18)}`, fingerprint, script = LIBRARY.scripts.get('reserve') }: SetOptions = {},
): Promise<SetAnswer> {
  const collected = new CollectedCalls(ledger.redis);
  const client = ledger.over(ledger.redis, collected);
  for (const member of members) {
    void client.reserve({ ...member, fields: { ...member.fields, sg: id } });
  }
  const shared = fingerprint ?? JSON.stringify(members).slice(0, 200);
  const { keys, args } = groupOf(
    collected.calls.map((call) => ({ keys: call.keys, args: call.args.with(FINGERPRINT, shared) })),
  );
  const name = script?.set?.plain.functionName as string;
  const run = (): Promise<unknown> => ledger.redis.fcall(name, keys.length, ...keys, ...args);
  const answer = await run().catch(async (error: Error) => {
    // The first call of a test on this server.
    if (!error.message.includes('Function not found')) {
      throw error;
    }
    await ledger.redis.function('LOAD', 'REPLACE', LIBRARY.code);
    return run();
  });
  const [refused, earlierId, ...texts] = answer as string[];
  return {
    refused: refused === '' ? undefined : Number(refused),
    earlierId: earlierId as string,
    replies: texts.map(textsIn),
  };
}

/** The words of the members' replies, or the refused one's place and word. */
export function wordsOf({ refused, replies }: SetAnswer): string {
  const words = replies.map(([word, answer]) =>
    answer === 'fresh' || answer === 'replay' ? `${word} ${answer}` : word,
  );
  return refused === undefined ? words.join(', ') : `${refused}: ${words.join()}`;
}
