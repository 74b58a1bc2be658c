#!lua flags=allow-oom
-- trim_audit_log: remove the oldest rows of a partition's audit log after their retention.
-- It carries allow-oom because it makes room.
--
-- KEYS[1]   audit_log      stream
-- ARGV[1]   retention_ms   how long a row stays
-- ARGV[2]   limit          rows that a run removes, at most
-- RETURNS   TRIMMED removed more, more being 1 when the limit ended the run
-- BOUND     limit rows
-- EMITS     nothing
-- @include  now_ms
local audit_log = KEYS[1]
local retention_ms, limit = tonumber(ARGV[1]), tonumber(ARGV[2])

local due = ms_text(math.max(0, now_ms() - retention_ms)) .. '-0'
-- One more than may go: the first that stays where the limit ends the run.
local rows = redis.call('XRANGE', audit_log, '-', '(' .. due, 'COUNT', limit + 1)
local more = #rows > limit

-- Nothing is refused below this line.
local removed = redis.call('XTRIM', audit_log, 'MINID', more and rows[limit + 1][1] or due)
return { 'TRIMMED', tostring(removed), more and '1' or '0' }
