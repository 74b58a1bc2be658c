import { Redis } from 'ioredis';

/** Refusals and reads are recorded in these: the event log, the audit logs and their indexes, what background jobs count, and the number of reserves that waited. */
const RECORDS =
  /^\{p[0-9a-f]{2}\}(events$|ev:|co:|audit(-brief|-indexed)?($|:)|activity:|rate:|rate-told:|rates-|arrivals$)/;

/** A dump of a hash or a set tells of its order, too, which a read may change. */
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
 * Ends the current period and the current windows of every budget a second ago. They took a day, and so does the next period of a budget
 * without a recurrence, which must not end before the last request.
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

/** Lets every window whose end has passed end tomorrow instead. */
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

/** Sees which keys of a whole server changed, byte for byte, since it last looked. */
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

  /** The keys that came, went or changed, without those that record refusals and reads. */
  async changes(): Promise<string[]> {
    // The server counts its writes, so that nothing has to be compared when there were none.
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

  /** A window turns only when a script decides from its budget, which may be a later refusal: so windows that have not turned go on. */
  async prolongWindows(): Promise<void> {
    await this.redis.eval(PROLONG_WINDOWS, 0);
  }

  /** Starts anew with an empty server, which stays as quick as it was. */
  async empty(): Promise<void> {
    await this.redis.flushall();
    await this.changes();
  }
}
