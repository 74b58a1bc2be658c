import { groupOf, replyOf } from '../../src/redis/grouped-calls.js';
import { readLibrary, type Runnable, type Script } from '../../src/redis/script-source.js';
import { type Arguments, type Reply, ScriptRegistry } from '../../src/redis/scripts.js';
import type { StoreClient } from '../support/store.js';

/**
 * The scripts as replays of the specification call them: with a fixed clock, one call after the other without
 * waiting.
 */

const CLOCK = 'spec-clock';
const TIME = "redis.call('TIME')";
/** Reads the seconds and microseconds from a key instead. */
const SET_TIME = `redis.call('HMGET', '${CLOCK}', 'seconds', 'micros')`;
/**
 * Loads the scripts under their own names with the clock of `setClock`. Needs a server that nothing else
 * uses.
 * @param change breaks a script
 */
export async function loadScripts(
  redis: StoreClient,
  change: (library: string) => string = (library) => library,
): Promise<void> {
  const library = change(readLibrary().code);
  if (!library.includes(TIME)) {
    throw new Error('no script reads the clock');
  }
  await redis.function('LOAD', 'REPLACE', library.replaceAll(TIME, SET_TIME));
}

/** Sets the time that the scripts read from now on. */
export function setClock(redis: StoreClient, nowMs: number): Promise<unknown> {
  return redis.hset(CLOCK, { seconds: Math.floor(nowMs / 1000), micros: (nowMs % 1000) * 1000 });
}

/** Sends every call immediately, separately and in order. */
export class CallsInOrder extends ScriptRegistry {
  constructor(private readonly redis: StoreClient) {
    super(redis);
  }

  protected override async send(script: Runnable | Script, keys: Arguments, args: Arguments): Promise<Reply> {
    const isGrouped = script.header.group !== undefined;
    const sent = isGrouped ? groupOf([{ keys, args }]) : { keys, args };
    const answer = await this.redis.fcall(script.functionName, sent.keys.length, ...sent.keys, ...sent.args);
    const reply = isGrouped ? replyOf((answer as Reply)[0] as string) : (answer as Reply);
    if (reply instanceof Error) {
      throw reply;
    }
    // The last text of a script that may write audit rows is not part of its declared reply.
    return script.audits ? reply.slice(0, -1) : reply;
  }
}

const BUDGET_FIELDS = [
  'remaining',
  'reserved',
  'spent',
  'allocated',
  'debt',
  'overdraft_limit',
  'is_over_limit',
  'status',
  'cascade_released',
  'period_end',
];
const HOLD_FIELDS = ['st', 'am', 'op', 'gr', 'ex', 'xc'];
/** A line for each budget and each hold, the index of deadlines, and the length of the event log. */
const READ = `
local lines, budgets, fields = {}, tonumber(ARGV[1]), {}
for i = 2, #ARGV do fields[i - 1] = ARGV[i] end
local function line(key, first, last)
  local values = redis.call('HMGET', key, unpack(fields, first, last))
  for i = 1, #values do values[i] = values[i] or '0' end
  local constants = fields[first + 2] == 'op' and redis.call('HGET', key, 'cn')
  if constants then
    values[3] = ({ r = 'REJECT', a = 'ALLOW_IF_AVAILABLE', o = 'ALLOW_WITH_OVERDRAFT' })[string.sub(constants, 1, 1)]
  end
  return table.concat(values, ',')
end
for i = 3, #KEYS do
  lines[#lines + 1] = i < 3 + budgets and line(KEYS[i], 1, ${BUDGET_FIELDS.length}) or line(KEYS[i], ${BUDGET_FIELDS.length + 1}, #fields)
end
lines[#lines + 1] = table.concat(redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), ' ')
return { table.concat(lines, '\\n'), redis.call('XLEN', KEYS[2]) }`;

/**
 * What is stored in these keys, one line each except the log, then the deadlines; and the number of events.
 */
export function readStored(
  redis: StoreClient,
  keys: {
    readonly deadlines: string;
    readonly log: string;
    readonly budgets: string[];
    readonly holds: string[];
  },
): Promise<[lines: string, events: number]> {
  const all = [keys.deadlines, keys.log, ...keys.budgets, ...keys.holds];
  const args = [keys.budgets.length, ...BUDGET_FIELDS, ...HOLD_FIELDS];
  return redis.eval(READ, all.length, ...all, ...args) as Promise<[string, number]>;
}
