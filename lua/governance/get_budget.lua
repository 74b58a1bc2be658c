#!lua flags=no-writes
-- get_budget: one budget's record without free-text fields.
--
-- KEYS[1]   budget           hash
-- ARGV[1]   scope            canonical
-- RETURNS   FOUND text_count record{} | NOT_FOUND
-- BOUND     one budget
-- EMITS     nothing
-- @include  listing, period, time, window_record
--
-- If the budget's period or one of its windows has ended, the record has the figures of the new one; likewise of
-- credits.
local budget, scope = KEYS[1], ARGV[1]

if redis.call('EXISTS', budget) == 0 then
  return { 'NOT_FOUND' }
end
-- Of two values of a field the later one counts.
local current, reply = {}, { 'FOUND' }
local now, f = time.now_ms(), redis.call('HMGET', budget, 'period_end', 'status', 'windows', 'credits')
period.add_current_fields(current, budget, scope, f[1], f[2], now, f[4])
if f[3] then
  current[#current + 1] = 'windows'
  current[#current + 1] = window_record.windows_text(window_record.current_windows(budget, f[3], f[2], now))
end
listing.append_record(reply, budget, 'budget', current)
return reply
