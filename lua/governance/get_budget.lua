#!lua flags=no-writes
-- get_budget: one budget's record without free-text fields.
--
-- KEYS[1]   budget           hash
-- ARGV[1]   scope            canonical
-- RETURNS   FOUND text_count record{} | NOT_FOUND
-- BOUND     one budget
-- EMITS     nothing
-- @include  now_ms: now_ms
-- @include  listing: append_record
-- @include  period: add_current_fields
--
-- If the budget's period has ended, the record has the figures of the new one.
local budget, scope = KEYS[1], ARGV[1]

if redis.call('EXISTS', budget) == 0 then
  return { 'NOT_FOUND' }
end
-- Of two values of a field the later one counts.
local current, reply = {}, { 'FOUND' }
add_current_fields(current, budget, scope, now_ms())
append_record(reply, budget, 'budget', current)
return reply
