#!lua flags=allow-oom
-- skip_events: move the consumer group past events without subscribers, without reading them.
-- allow-oom: as lua/webhooks/dispatch_page.lua.
--
-- KEYS[1]   lease          string, the token of the instance that dispatches the partition
-- KEYS[2]   event_log      stream
-- ARGV[1]   token          the calling instance
-- ARGV[2]   up_to          the last entry to skip, as returned by an earlier run; empty to get the last entry of the
--           log
-- ARGV[3]   entries_added  as returned by that run
-- RETURNS   UP_TO now_ms entry_id entries_added | SKIPPED now_ms | WATCHED now_ms | OTHER now_ms lapses_in_ms
--           | FREE now_ms
-- BOUND     one entry of the log
-- EMITS     nothing
-- @include  dispatch_group, keys, time
--
-- It takes two runs, because the operators' subscriptions are in another partition. The caller checks them in between,
-- and skips only if there are none, so a subscription created before an event does not miss it. WATCHED: the events
-- must be read, because this partition has or had a subscription, or has no consumer group yet.
local lease, event_log = KEYS[1], KEYS[2]
local token, up_to, entries_added = ARGV[1], ARGV[2], ARGV[3]

local now = time.ms_text(time.now_ms())
local holder = redis.call('GET', lease)
if not holder then
  return { 'FREE', now }
end
if holder ~= token then
  return { 'OTHER', now, tostring(redis.call('PTTL', lease)) }
end
local state = dispatch_group.dispatch_group_state(event_log)
if not state or redis.call('EXISTS', keys.webhook_revision(keys.tag_of(event_log))) == 1 then
  return { 'WATCHED', now }
end
if up_to == '' then
  local log = dispatch_group.named(redis.call('XINFO', 'STREAM', event_log))
  return { 'UP_TO', now, log['last-generated-id'], string.format('%d', log['entries-added']) }
end
-- Never backwards: the group may have read on meanwhile.
if #redis.call('XRANGE', event_log, '(' .. state['last-delivered-id'], up_to, 'COUNT', 1) > 0 then
  redis.call('XGROUP', 'SETID', event_log, dispatch_group.DISPATCH_GROUP, up_to, 'ENTRIESREAD', entries_added)
end
return { 'SKIPPED', now }
