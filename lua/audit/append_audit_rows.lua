#!lua
-- append_audit_rows: append rows that no change wrote: refusals, failures, reads, repeated requests, invalid
-- credentials.
-- No allow-oom: a full Redis must not get fuller with rows about what it refused.
--
-- KEYS[1]   log              the partition's audit log or its brief one, a stream
-- ARGV[1]   log_name         audit or audit-brief
-- ARGV[2]   most             rows that the log may hold, or 0 for no limit
-- ARGV[...] for each row, the number of its texts and its (name value)* pairs, at most 50 rows
-- RETURNS   APPENDED appended:int removed:int
-- BOUND     50 rows appended, 200 rows removed
-- EMITS     nothing
-- @include  audit_index, keys
--
-- removed counts the rows removed because of the limit.
local log = KEYS[1]
local log_name, most = ARGV[1], tonumber(ARGV[2])
local first_row = 3
local REMOVED_A_RUN = 200

local tag = keys.tag_of(log)
redis.call('XLEN', log)

-- Nothing is refused below this line.
local appended, next_row = 0, first_row
while next_row <= #ARGV do
  local last = next_row + tonumber(ARGV[next_row])
  audit_index.append_audit_row(tag, log_name, log, { unpack(ARGV, next_row + 1, last) })
  appended, next_row = appended + 1, last + 1
end
local excess, removed = redis.call('XLEN', log) - most, 0
if most > 0 and excess > 0 then
  local rows = redis.call('XRANGE', log, '-', '+', 'COUNT', math.min(excess, REMOVED_A_RUN) + 1)
  local kept = table.remove(rows)
  removed = audit_index.remove_audit_rows(tag, log_name, log, rows, kept[1])
end
return { 'APPENDED', tostring(appended), tostring(removed) }
