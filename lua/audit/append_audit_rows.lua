#!lua
-- append_audit_rows: append rows that no change wrote: refusals, failures, reads, repeated requests, invalid
-- credentials; and those of the request log.
-- No allow-oom: a full Redis must not get fuller with rows about what it refused.
--
-- KEYS[1]   log              the partition's audit log, its brief one, or its request log: a stream
-- ARGV[1]   log_name         audit, audit-brief or refused
-- ARGV[2]   most             rows that the log may hold, or 0 for no limit
-- ARGV[3]   most_a_tenant    rows of one tenant that the log may hold, or 0 for no limit
-- ARGV[...] for each row, the number of its texts and its (name value)* pairs, at most 50 rows
-- RETURNS   APPENDED appended:int removed:int
-- BOUND     50 rows appended, 200 rows removed, and of each tenant among them another 100
-- EMITS     nothing
-- @include  audit_index, keys
--
-- removed counts the rows removed because of the limits.
local log = KEYS[1]
local log_name, most, most_a_tenant = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local first_row = 4
local REMOVED_A_RUN, REMOVED_A_TENANT = 200, 100

local tag = keys.tag_of(log)
redis.call('XLEN', log)

-- Nothing is refused below this line.
local appended, next_row, tenants = 0, first_row, {}
while next_row <= #ARGV do
  local last = next_row + tonumber(ARGV[next_row])
  local tenant = audit_index.append_audit_row(tag, log_name, log, { unpack(ARGV, next_row + 1, last) })
  tenants[tenant or ''] = true
  appended, next_row = appended + 1, last + 1
end
local removed = 0
if most_a_tenant > 0 then
  for tenant in pairs(tenants) do
    removed = removed + audit_index.remove_beyond(tag, log_name, log, tenant, most_a_tenant, REMOVED_A_TENANT)
  end
end
local excess = redis.call('XLEN', log) - most
if most > 0 and excess > 0 then
  local rows = redis.call('XRANGE', log, '-', '+', 'COUNT', math.min(excess, REMOVED_A_RUN) + 1)
  local kept = table.remove(rows)
  removed = removed + audit_index.remove_audit_rows(tag, log_name, log, rows, kept[1])
end
return { 'APPENDED', tostring(appended), tostring(removed) }
