#!lua flags=allow-oom
-- trim_audit_log: remove the oldest rows of a partition's audit log after their retention.
-- It carries allow-oom because it makes room.
--
-- KEYS[1]   audit_log      stream
-- ARGV[1]   retention_ms   how long a row stays
-- ARGV[2]   limit          rows that a run removes, at most
-- RETURNS   TRIMMED removed more, more being 1 when the limit ended the run
-- BOUND     limit rows, 256 KiB of them
-- EMITS     nothing
-- @include  now_ms, stream_walk
local audit_log = KEYS[1]
local retention_ms, limit = tonumber(ARGV[1]), tonumber(ARGV[2])

local due = ms_text(math.max(0, now_ms() - retention_ms)) .. '-0'
local last, _, more = walk_stream('XRANGE', audit_log, '-', '(' .. due, limit, function() end)

-- Nothing is refused below this line.
local removed = last and redis.call('XTRIM', audit_log, 'MINID', id_after(last)) or 0
return { 'TRIMMED', tostring(removed), more and '1' or '0' }
