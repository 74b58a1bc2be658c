#!lua flags=no-writes
-- list_credits: the credits of a budget, those that have ended within 30 days among them.
--
-- KEYS[1]   budget           hash
-- ARGV[1]   scope            canonical
-- ARGV[2]   unit
-- ARGV[3]   limit            ended credits at most
-- RETURNS   FOUND now_ms live? has_more:flag credits* | NOT_FOUND
-- BOUND     64 credits and limit ended ones
-- EMITS     nothing
-- @include  keys, period, time
--
-- live is the budget's field `credits`, as it is now. Each credit is the fields and values of its record with the
-- separator 0x1f between them, credit_id first.
local budget, scope, unit, limit = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local BETWEEN, LIVE = '\31', 128

local tag, now = keys.tag_of(budget), time.now_ms()
local f = redis.call('HMGET', budget, 'status', 'period_end', 'credits')
if not f[1] then
  return { 'NOT_FOUND' }
end
local current = {}
period.add_current_fields(current, budget, scope, f[2], f[1], now, f[3] or nil)
local live = f[3] or ''
for i = 1, #current, 2 do
  live = current[i] == 'credits' and current[i + 1] or live
end
local index = keys.credits_of(tag, unit, scope)
local ids = redis.call('ZRANGEBYSCORE', index, 0, 0, 'LIMIT', 0, LIVE)
local ended = redis.call('ZREVRANGEBYSCORE', index, '+inf', '(0', 'LIMIT', 0, limit + 1)
local reply = { 'FOUND', time.ms_text(now), live, #ended > limit and '1' or '0' }
for i = 1, math.min(#ended, limit) do
  ids[#ids + 1] = ended[i]
end
for _, id in ipairs(ids) do
  local record = redis.pcall('HGETALL', keys.credit(tag, id))
  if not record.err and #record > 0 then
    reply[#reply + 1] = 'credit_id' .. BETWEEN .. id .. BETWEEN .. table.concat(record, BETWEEN)
  end
end
return reply
