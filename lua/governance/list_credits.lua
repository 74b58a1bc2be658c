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
-- @include  credit_record, int64, keys, period, time
--
-- live is the budget's field `credits`, as it is now. Each credit is the fields and values of its record with the
-- separator 0x1f between them, credit_id first; a record that is gone or none has nothing else. What has happened to it
-- and is not written yet follows: the last of two values holds.
local budget, scope, unit, limit = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local BETWEEN, LIVE = '\31', 128
local STATUS_OF = { ended = 'ENDED', exhausted = 'EXHAUSTED' }

local tag, now = keys.tag_of(budget), time.now_ms()
local f = redis.call('HMGET', budget, 'status', 'period_end', 'credits')
if not f[1] then
  return { 'NOT_FOUND' }
end
local state = period.state_now(budget, scope, f[2], f[1], now, f[3] or nil)
local has_turned = state and state.credits
local live = has_turned and credit_record.text_of(state.credits) or f[3] or ''
local effects = has_turned and state.credit_effects or credit_record.new_effects()
local status_of, lapsed_of = {}, {}
for _, happening in ipairs(effects.happened) do
  local id = happening[2].id
  status_of[id] = STATUS_OF[happening[1]] or status_of[id]
end
for _, lapse in ipairs(effects.lapses) do
  local id = lapse[1]
  local lapsed = lapsed_of[id] or redis.pcall('HGET', keys.credit(tag, id), 'lapsed')
  lapsed_of[id] = int64.text(int64.add(int64.is_amount(lapsed) and lapsed or '0', lapse[2]))
end
local index = keys.credits_of(tag, unit, scope)
local ids = redis.call('ZRANGEBYSCORE', index, 0, 0, 'LIMIT', 0, LIVE)
local ended = redis.call('ZREVRANGEBYSCORE', index, '+inf', '(' .. time.ms_text(time.redis_ms()), 'LIMIT', 0,
  limit + 1)
local reply = { 'FOUND', time.ms_text(now), live, #ended > limit and '1' or '0' }
for i = 1, math.min(#ended, limit) do
  ids[#ids + 1] = ended[i]
end
for _, id in ipairs(ids) do
  local record = redis.pcall('HGETALL', keys.credit(tag, id))
  record = record.err and {} or record
  if #record > 0 then
    if status_of[id] then
      record[#record + 1], record[#record + 2] = 'status', status_of[id]
      record[#record + 1], record[#record + 2] = 'ended_at', time.ms_text(now)
    end
    if lapsed_of[id] then
      record[#record + 1], record[#record + 2] = 'lapsed', lapsed_of[id]
    end
  end
  reply[#reply + 1] = 'credit_id' .. BETWEEN .. id .. BETWEEN .. table.concat(record, BETWEEN)
end
return reply
