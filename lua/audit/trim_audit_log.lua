#!lua flags=allow-oom
-- trim_audit_log: remove rows past their retention from one of a partition's audit logs and its indexes, oldest first.
-- allow-oom: it frees memory.
--
-- KEYS[1]   audit_log      stream
-- ARGV[1]   log_name       audit, audit-brief or refused
-- ARGV[2]   retention_ms   how long rows are kept
-- ARGV[3]   limit          maximum rows to remove
-- RETURNS   TRIMMED removed:int more:flag
-- BOUND     limit rows, 256 KiB of them
-- EMITS     nothing
-- @include  audit_index, keys, stream_walk, time
--
-- more is 1 if the limit ended the run.
local audit_log = KEYS[1]
local log_name, retention_ms, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local due = time.ms_text(math.max(0, time.redis_ms() - retention_ms)) .. '-0'
local rows = {}
local last, _, more = stream_walk.walk_stream('XRANGE', audit_log, '-', '(' .. due, limit, function(row)
  rows[#rows + 1] = row
end)

-- Nothing is refused below this line.
local removed = last
  and audit_index.remove_audit_rows(keys.tag_of(audit_log), log_name, audit_log, rows, stream_walk.id_after(last)) or 0
return { 'TRIMMED', tostring(removed), more and '1' or '0' }
