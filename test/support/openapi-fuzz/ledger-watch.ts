import { Redis } from 'ioredis';

/**
 * The keys that refusals and reads may change: the event log, the audit logs and the request log with their indexes, the counters
 * of background jobs, and the number of reserves that waited.
 */
const RECORDS =
  /^\{p[0-9a-f]{2}\}(events$|ev:|co:|(audit(-brief|-indexed)?|refused)($|:)|activity:|rate:|rate-told:|rates-|arrivals$)/;

/** A dump of a hash or a set also depends on its order, which a read may change. */
const DIGEST_ALL = `
local function contents(key)
  local kind, texts = redis.call('TYPE', key).ok, {}
  if kind == 'hash' then
    local fields = redis.call('HGETALL', key)
    for i = 1, #fields, 2 do
      texts[#texts + 1] = #fields[i] .. ':' .. fields[i] .. fields[i + 1]
    end
  elseif kind == 'set' then
    texts = redis.call('SMEMBERS', key)
  else
    return redis.call('DUMP', key)
  end
  table.sort(texts)
  return table.concat(texts, string.char(0))
end
local reply = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  reply[#reply + 1] = key
  reply[#reply + 1] = redis.sha1hex(contents(key)) .. ' until ' .. redis.call('PEXPIRETIME', key)
end
return reply`;

/**
 * Ends the current period and windows of every budget a second ago. They started a day ago, and the next
 * period of a budget without a recurrence lasts a day as well, so it cannot end before the last request.
 */
const PASS_BOUNDARIES = `
local now = redis.call('TIME')[1] * 1000
local starts, ends = string.format('%d', now - 86401000), string.format('%d', now - 1000)
for _, key in ipairs(redis.call('KEYS', '*}b:*')) do
  local unit, scope = string.match(key, '}b:([^:]+):(.+)$')
  local record = redis.call('HMGET', key, 'period_end', 'windows')
  if record[1] then
    redis.call('HSET', key, 'period_start', starts, 'period_end', ends)
    redis.call('ZADD', string.sub(key, 1, 5) .. 'periods', ends, scope .. ' ' .. unit)
  end
  if record[2] then
    redis.call('HSET', key, 'windows', (string.gsub(record[2], ',%d+,%d+%f[ %z]', ',' .. starts .. ',' .. ends)))
  end
end`;

/** Moves the end of every overdue window to tomorrow. */
const PROLONG_WINDOWS = `
local now = tonumber(redis.call('TIME')[1]) * 1000
local ends = string.format('%d', now + 86400000)
for _, key in ipairs(redis.call('KEYS', '*}b:*')) do
  local windows = redis.call('HGET', key, 'windows')
  if windows then
    redis.call('HSET', key, 'windows', (string.gsub(windows, '(,%d+),(%d+)%f[ %z]', function(starts, former)
      return tonumber(former) <= now and starts .. ',' .. ends or nil
    end)))
  end
end`;

/** Finds which keys of a whole server have changed, byte for byte, since the last look. */
export class LedgerWatch {
  private readonly redis: Redis;
  private writes = '';
  private digests = new Map<string, string>();

  constructor(url: string) {
    this.redis = new Redis(url);
  }

  async close(): Promise<void> {
    await this.redis.quit();
  }

  /** The keys that were added, removed or changed, except those that record refusals and reads. */
  async changes(): Promise<string[]> {
    // The server counts its writes, so there is nothing to compare if it counted none.
    const writes = /rdb_changes_since_last_save:(\d+)/.exec(await this.redis.info('persistence'))?.[1] ?? '';
    if (writes === this.writes) {
      return [];
    }
    const before = this.digests;
    const flat = (await this.redis.eval(DIGEST_ALL, 0)) as string[];
    this.digests = new Map(
      flat.flatMap((key, index) => (index % 2 === 0 ? [[key, flat[index + 1] as string] as const] : [])),
    );
    this.writes = writes;
    const keys = new Set([...before.keys(), ...this.digests.keys()]);
    return [...keys].filter((key) => !RECORDS.test(key) && before.get(key) !== this.digests.get(key));
  }

  async passBoundaries(): Promise<void> {
    await this.redis.eval(PASS_BOUNDARIES, 0);
  }

  /**
   * A window turns over only when a script decides by its budget, which a refusal may do as well. So windows
   * that have not turned over are prolonged.
   */
  async prolongWindows(): Promise<void> {
    await this.redis.eval(PROLONG_WINDOWS, 0);
  }

  /** Empties the server for a fresh start, so that comparisons stay fast. */
  async empty(): Promise<void> {
    await this.redis.flushall();
    await this.changes();
  }
}
