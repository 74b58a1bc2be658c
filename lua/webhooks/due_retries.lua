#!lua flags=no-writes
-- due_retries: the deliveries of a partition whose next attempt is due, oldest first, and when the next one will be
-- due.
--
-- KEYS[1]   lease        string, the token of the instance that dispatches the partition
-- KEYS[2]   retrying     zset, score = when the next attempt is due, in ms
-- ARGV[1]   token        the calling instance
-- ARGV[2]   first        rank to start at; an earlier run returned those before it, and they are still in the index
-- ARGV[3]   limit        maximum deliveries to return
-- RETURNS   DUE now_ms next_due_ms? due(ref due_ms)* | NOT_HELD
-- BOUND     limit entries of the index
-- EMITS     nothing
-- @include  time
--
-- next_due_ms is the due time of the first delivery that is not due yet, empty if there is none.
local lease, retrying = KEYS[1], KEYS[2]
local token, first, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

if redis.call('GET', lease) ~= token then
  return { 'NOT_HELD' }
end
local now = time.now_ms()
local following = redis.call('ZRANGEBYSCORE', retrying, '(' .. time.ms_text(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
local reply = { 'DUE', time.ms_text(now), following[2] or '' }
local entries = redis.call('ZRANGE', retrying, first, first + limit - 1, 'WITHSCORES')
for i = 1, #entries, 2 do
  if tonumber(entries[i + 1]) > now then
    break
  end
  reply[#reply + 1] = entries[i]
  reply[#reply + 1] = entries[i + 1]
end
return reply
