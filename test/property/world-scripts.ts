import type { Redis } from 'ioredis';
import { LIBRARY, type Script } from '../../src/redis/script-library.js';
import { FIRST_INSTANT } from './world-time.js';

const CLOCK = 'play:now';
const DEADLINES = 'play:deadlines';

/**
 * Prepended to every script: replaces Redis' clock by that of the play. Expiries become instants of that
 * clock, and the keys that have one are recorded, because Redis itself does not expire them.
 */
const BY_THE_CLOCK = `local function server() return redis end
local redis = (function()
  local function now() return tonumber(server().call('GET', '${CLOCK}')) end
  local function expire(run, key, at, ...)
    server().call('ZADD', '${DEADLINES}', at, key)
    return run('PEXPIREAT', key, string.format('%d', at), ...)
  end
  local told = {
    TIME = function()
      local ms = now()
      return { string.format('%d', math.floor(ms / 1000)), string.format('%d', ms % 1000 * 1000) }
    end,
    PEXPIRE = function(run, key, ms, ...) return expire(run, key, now() + ms, ...) end,
    PEXPIREAT = expire,
    PTTL = function(run, key)
      local at = run('PEXPIRETIME', key)
      return at < 0 and at or math.max(0, at - now())
    end,
    SET = function(run, ...)
      local key, value, how, ms = ...
      if how ~= 'PX' then
        return run('SET', ...)
      end
      local at = now() + ms
      server().call('ZADD', '${DEADLINES}', at, key)
      return run('SET', key, value, 'PXAT', string.format('%d', at))
    end,
    XADD = function(run, key, id, ...)
      return run('XADD', key, id == '*' and string.format('%d-*', now()) or id, ...)
    end,
  }
  local function through(name)
    return function(command, ...)
      local run = server()[name]
      if told[command] then
        return told[command](run, ...)
      end
      return run(command, ...)
    end
  end
  return {
    call = through('call'),
    pcall = through('pcall'),
    sha1hex = function(text) return server().sha1hex(text) end,
    register_function = function(about) return server().register_function(about) end,
  }
end)()
`;

/** Advances the clock, and deletes the keys that have expired by it. */
const PASS = `#!lua flags=allow-oom
local now = tonumber(ARGV[1])
redis.call('SET', KEYS[1], ARGV[1])
for _, key in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. ARGV[1])) do
  local at = redis.call('PEXPIRETIME', key)
  if at >= now then
    redis.call('ZADD', KEYS[2], at, key)
  else
    redis.call('ZREM', KEYS[2], key)
    if at >= 0 then
      redis.call('DEL', key)
    end
  end
end
return 1
`;

/** By function name. */
export const SCRIPTS: ReadonlyMap<string, Script> = new Map(
  [...LIBRARY.scripts.values()].map((script) => [script.functionName, script]),
);

export type LibraryChange = (library: string) => string;

/** Loads all scripts so that they use the play's clock. `change` breaks one of them. */
export async function loadScripts(redis: Redis, change: LibraryChange = (library) => library): Promise<void> {
  const library = change(LIBRARY.code);
  const start = library.indexOf('\n') + 1;
  await redis.function('LOAD', 'REPLACE', library.slice(0, start) + BY_THE_CLOCK + library.slice(start));
  await pass(redis, FIRST_INSTANT);
}

/** Advances the scripts' clock. */
export async function pass(redis: Redis, nowMs: number): Promise<void> {
  await redis.eval(PASS, 2, CLOCK, DEADLINES, nowMs);
}
