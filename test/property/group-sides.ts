import type { Redis } from 'ioredis';
import { wakeChannel } from '../../src/redis/keyspace.js';
import { groupOf, type GroupedCall } from '../../src/redis/grouped-calls.js';
import type { Runnable } from '../../src/redis/script-library.js';
import { type Arguments, type Reply, ScriptRegistry } from '../../src/redis/scripts.js';
import { type LibraryChange, loadScripts, pass } from './world-scripts.js';

/** Where notifications of waiting reserves are collected, because nobody is subscribed. */
const TOLD = wakeChannel('one');

/**
 * The contents of every key of a partition, without the order of fields, and until when the key exists. Places of waiting reserves that
 * have lapsed are left out: they count for nothing, and who comes past them first removes them.
 */
const READ_ALL = `
local tag, now = KEYS[1], tonumber(ARGV[1])
local function lives(waiters, place)
  return tonumber(redis.call('ZSCORE', waiters, place) or 0) >= now
end
local function living(key, waiters)
  local lines, members = {}, redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  for i = 1, #members, 2 do
    if lives(waiters, members[i]) then
      lines[#lines + 1], lines[#lines + 2] = members[i], members[i + 1]
    end
  end
  return lines[1] and lines
end
local function contents(key)
  local kind, name = redis.call('TYPE', key).ok, string.sub(key, #tag + 1)
  local tenant = string.match(name, '^bw:[^:]+:tenant:([^/]+)') or string.match(name, '^waiters:(.+)')
  if tenant then
    return living(key, tag .. 'waiters:' .. tenant)
  end
  if kind == 'hash' then
    local flat, lines = redis.call('HGETALL', key), {}
    for i = 1, #flat, 2 do lines[#lines + 1] = flat[i] .. '=' .. flat[i + 1] end
    table.sort(lines)
    return lines
  elseif kind == 'zset' then return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'stream' then return redis.call('XRANGE', key, '-', '+')
  elseif kind == 'list' then
    local members = redis.call('LRANGE', key, 0, -1)
    table.sort(members)
    return members
  elseif kind == 'set' then return redis.call('SMEMBERS', key) end
  return redis.call('GET', key)
end
local reply = {}
for _, key in ipairs(redis.call('KEYS', tag .. '*')) do
  local found = contents(key)
  if found then
    reply[#reply + 1] = key
    reply[#reply + 1] = cjson.encode({ found, redis.call('PEXPIRETIME', key) })
  end
end
return reply`;

/** What one call was answered: the text of its reply, or of its error, as the run has it. */
export interface Batch {
  readonly texts: readonly string[];
  /** The notifications of waiting reserves, in order. */
  readonly told: readonly string[];
  /** The numbers of calls of each run. */
  readonly runs: readonly number[];
}

/** Collects calls instead of sending them. */
export class CollectedCalls extends ScriptRegistry {
  readonly calls: GroupedCall[] = [];
  called: Runnable | undefined;

  protected override send(script: Runnable, keys: Arguments, args: Arguments): Promise<Reply> {
    this.called = script;
    this.calls.push({ keys, args });
    return Promise.resolve([]);
  }
}

/** One of the two servers, which get the same calls in runs of different sizes. */
export class Side {
  constructor(
    readonly redis: Redis,
    private readonly most: number,
  ) {}

  /** Loads the scripts with a clock that stands still, and with notifications that are kept. */
  async load(change: LibraryChange = (library) => library): Promise<void> {
    await loadScripts(this.redis, (library) => {
      const text = change(library);
      if (!text.includes("redis.call('PUBLISH', keys.wake_channel(")) {
        throw new Error('no script notifies waiting reserves');
      }
      return text.replaceAll(
        "redis.call('PUBLISH', keys.wake_channel(",
        "redis.call('RPUSH', keys.wake_channel(",
      );
    });
  }

  pass(nowMs: number): Promise<void> {
    return pass(this.redis, nowMs);
  }

  /** Runs the calls in order, as many in a run as this side takes. Those that a run did not reach go into the next one. */
  async send(script: Runnable, calls: readonly GroupedCall[]): Promise<Batch> {
    const texts: string[] = [];
    const runs: number[] = [];
    while (texts.length < calls.length) {
      const { keys, args } = groupOf(calls.slice(texts.length, texts.length + this.most));
      const made = (await this.redis.fcall(script.functionName, keys.length, ...keys, ...args)) as string[];
      if (made.length === 0) {
        throw new Error('a run made no call');
      }
      texts.push(...made);
      runs.push(made.length);
    }
    const told = await this.redis.lrange(TOLD, 0, -1);
    await this.redis.del(TOLD);
    return { texts, told, runs };
  }

  async read(tag: string, nowMs: number): Promise<Map<string, string>> {
    const flat = (await this.redis.eval(READ_ALL, 1, tag, nowMs)) as string[];
    return new Map(flat.flatMap((key, index) => (index % 2 === 0 ? [[key, flat[index + 1] as string]] : [])));
  }

  /** Copies the keys of a partition to another side. */
  async copyTo(other: Side, tag: string): Promise<void> {
    for (const key of await this.redis.keys(`${tag}*`)) {
      const [bytes, until] = await Promise.all([this.redis.dumpBuffer(key), this.redis.pexpiretime(key)]);
      await other.redis.restore(key, Math.max(0, until), bytes, 'ABSTTL');
    }
  }

  async clear(tag: string): Promise<void> {
    const keys = await this.redis.keys(`${tag}*`);
    if (keys.length > 0) {
      await this.redis.del(...keys);
    }
  }
}
