#!lua flags=allow-oom
-- skip_events: move the consumer group past events that nobody wants, without reading them.
-- It carries allow-oom as lua/webhooks/dispatch_page.lua does.
--
-- KEYS[1]   lease          string, the token of the instance that dispatches the partition
-- KEYS[2]   event_log      stream
-- ARGV[1]   token          the asking instance
-- ARGV[2]   up_to          the last entry to skip, as an earlier run told it; empty to be told the last one of the log
-- ARGV[3]   entries_added  what that run told beside it
-- RETURNS   UP_TO now_ms entry_id entries_added | SKIPPED now_ms | WATCHED now_ms | OTHER now_ms lapses_in_ms | FREE now_ms
-- BOUND     one entry of the log
-- EMITS     nothing
-- @include  keys: tag_of_key, webhook_revision_key
-- @include  now_ms: now_ms, ms_text
-- @include  dispatch_group: DISPATCH_GROUP, named, dispatch_group_state
--
-- Two runs, since the operators' subscriptions are in a partition of their own: the caller looks at them in between, and skips
-- when there is none, so that none which was made before an event misses it. WATCHED says that a subscription was made in this
-- partition at some time: its events are read.
local lease, event_log = KEYS[1], KEYS[2]
local token, up_to, entries_added = ARGV[1], ARGV[2], ARGV[3]

local now = ms_text(now_ms())
local holder = redis.call('GET', lease)
if not holder then
  return { 'FREE', now }
end
if holder ~= token then
  return { 'OTHER', now, tostring(redis.call('PTTL', lease)) }
end
local state = dispatch_group_state(event_log)
if not state or redis.call('EXISTS', webhook_revision_key(tag_of_key(event_log))) == 1 then
  return { 'WATCHED', now }
end
if up_to == '' then
  local log = named(redis.call('XINFO', 'STREAM', event_log))
  return { 'UP_TO', now, log['last-generated-id'], string.format('%d', log['entries-added']) }
end
-- Never backwards, whoever read on meanwhile.
if #redis.call('XRANGE', event_log, '(' .. state['last-delivered-id'], up_to, 'COUNT', 1) > 0 then
  redis.call('XGROUP', 'SETID', event_log, DISPATCH_GROUP, up_to, 'ENTRIESREAD', entries_added)
end
return { 'SKIPPED', now }
