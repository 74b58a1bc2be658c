import { type GroupedCall, groupOf, replyOf } from '../../src/redis/grouped-calls.js';
import { LIBRARY, type Runnable } from '../../src/redis/script-library.js';
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
  const library = change(LIBRARY.code);
  if (!library.includes(TIME)) {
    throw new Error('no script reads the clock');
  }
  await redis.function('LOAD', 'REPLACE', library.replaceAll(TIME, SET_TIME));
}

/** Sets the time that the scripts read from now on. */
export function setClock(redis: StoreClient, nowMs: number): Promise<unknown> {
  return redis.hset(CLOCK, { seconds: Math.floor(nowMs / 1000), micros: (nowMs % 1000) * 1000 });
}

interface CollectedCall extends GroupedCall {
  readonly script: Runnable;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: unknown) => void;
}

function answer({ resolve, reject }: CollectedCall, text: string | undefined): void {
  const reply = text === undefined ? new Error('the run ended before this call') : replyOf(text);
  if (reply instanceof Error) {
    reject(reply);
  } else {
    resolve(reply);
  }
}

/** Sends every call immediately and in order. */
export class CallsInOrder extends ScriptRegistry {
  /** The calls of the next run of a grouped script. */
  private collected: CollectedCall[] | undefined;

  constructor(private readonly redis: StoreClient) {
    super(redis);
  }

  /** Sends the calls that `make` makes in one run. All must be of the same grouped script. */
  inOneRun<T>(make: () => T): T {
    const calls: CollectedCall[] = [];
    this.collected = calls;
    const made = make();
    this.collected = undefined;
    const { functionName } = (calls[0] as CollectedCall).script;
    const { keys, args } = groupOf(calls);
    void this.redis.fcall(functionName, keys.length, ...keys, ...args).then(
      (texts) => calls.forEach((call, index) => answer(call, (texts as string[])[index])),
      (error: unknown) => calls.forEach(({ reject }) => reject(error)),
    );
    return made;
  }

  private grouped(script: Runnable, keys: Arguments, args: Arguments): Promise<Reply> {
    if (this.collected === undefined) {
      return this.inOneRun(() => this.grouped(script, keys, args));
    }
    return new Promise((resolve, reject) => this.collected?.push({ script, keys, args, resolve, reject }));
  }

  protected override async send(script: Runnable, keys: Arguments, args: Arguments): Promise<Reply> {
    if (script.group !== undefined) {
      return this.grouped(script, keys, args);
    }
    const reply = (await this.redis.fcall(script.functionName, keys.length, ...keys, ...args)) as Reply;
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
