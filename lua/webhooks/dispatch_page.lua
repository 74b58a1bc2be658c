#!lua flags=allow-oom
-- dispatch_page: hold the lease of a partition's dispatch, and read the next events of its log for the consumer group.
-- allow-oom: events must reach their subscribers when Redis is full.
--
-- KEYS[1]   lease          string, the token of the instance that dispatches the partition
-- KEYS[2]   event_log      stream
-- ARGV[1]   token          the calling instance
-- ARGV[2]   lease_ms
-- ARGV[3]   take           1 takes or renews the lease and reads the state of the group, 0 only reads events under a
--           lease held already
-- ARGV[4]   after          '>' for events never read, or an entry id for events after it that were read but not
--           acknowledged
-- ARGV[5]   limit          maximum events to return; 0 reads none
-- RETURNS   HELD now_ms lease:renewed|taken|none lag:int? pending:int? oldest_ms? queues:int? retrying:int?
--           to_recover:int?
--           last_read? more:flag events(entry_id field_count event{})* | OTHER now_ms lapses_in_ms | FREE now_ms
-- BOUND     limit events, 256 KiB of them
-- EMITS     nothing
-- @include  dispatch_group, keys, lists, stream_walk, time
--
-- Only the holder of the lease reads. A new holder asks after '0' to find every event that was read but not
-- acknowledged. All instances are the same consumer of the group; the lease decides which one reads.
-- With take 1, the reply describes the partition: lag counts the events that are not acknowledged, pending those of
-- them that were read, oldest_ms is the oldest of them (empty if there are none), queues counts the queues that are not
-- empty, retrying counts the deliveries that wait for a retry, to_recover counts those whose retry is long overdue or
-- whose failure was not counted, and last_read is the last event that was read. With take 0, these are empty. more is 1
-- if a bound ended the run.
local lease, event_log = KEYS[1], KEYS[2]
local token, lease_ms, take, after, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local CONSUMER = 'dispatcher'
-- A live holder would have handled it by then.
local LEFT_OVER_AFTER_MS = 30000

local now = time.now_ms()
local holder = redis.call('GET', lease)
if holder and holder ~= token then
  return { 'OTHER', time.ms_text(now), tostring(redis.call('PTTL', lease)) }
end
if not holder and take ~= '1' then
  return { 'FREE', time.ms_text(now) }
end

-- An entry that was read but not acknowledged is older than any unread one.
local function oldest_waiting(state)
  if state.pending > 0 then
    return string.match(redis.call('XPENDING', event_log, dispatch_group.DISPATCH_GROUP)[2], '^%d+')
  end
  local unread = redis.call('XRANGE', event_log, '(' .. state['last-delivered-id'], '+', 'COUNT', 1)[1]
  return unread and string.match(unread[1], '^%d+') or ''
end

local reply = { 'HELD', time.ms_text(now), 'none', '', '', '', '', '', '', '', '0' }
if take == '1' then
  local state = dispatch_group.dispatch_group_state(event_log)
  local tag, overdue = keys.tag_of(event_log), time.ms_text(now - LEFT_OVER_AFTER_MS)
  local queues, retrying = redis.call('SCARD', keys.ordered_queues(tag)), redis.call('ZCARD', keys.retrying(tag))
  local to_recover = redis.call('ZCOUNT', keys.retrying(tag), '-inf', overdue) + redis.call('ZCOUNT',
    keys.outcomes(tag), '-inf', overdue)
  -- Nothing is refused below this line.
  if not state then
    redis.call('XGROUP', 'CREATE', event_log, dispatch_group.DISPATCH_GROUP, '0', 'MKSTREAM')
    state = dispatch_group.dispatch_group_state(event_log)
  end
  redis.call('SET', lease, token, 'PX', lease_ms)
  reply[3] = holder and 'renewed' or 'taken'
  reply[4] = tostring(state.pending + (state.lag or 0))
  reply[5], reply[6] = tostring(state.pending), oldest_waiting(state)
  reply[7], reply[8], reply[9], reply[10] = tostring(queues), tostring(retrying), tostring(to_recover),
    state['last-delivered-id']
end
-- Reads small portions, as walk_stream does.
local seen, bytes = 0, 0
while seen < limit and bytes < stream_walk.STREAM_BYTES do
  local wanted = math.min(stream_walk.STREAM_PORTION, limit - seen)
  local read = redis.call('XREADGROUP', 'GROUP', dispatch_group.DISPATCH_GROUP, CONSUMER, 'COUNT', wanted, 'STREAMS',
    event_log, after)
  local entries = read and read[1][2] or {}
  for _, entry in ipairs(entries) do
    -- An entry that was deleted before it was acknowledged has no fields.
    local fields = entry[2] or {}
    reply[#reply + 1] = entry[1]
    reply[#reply + 1] = tostring(#fields / 2)
    lists.append_all(reply, fields)
    seen, bytes = seen + 1, bytes + stream_walk.entry_bytes(fields)
    after = after == '>' and after or entry[1]
  end
  if #entries < wanted then
    return reply
  end
end
reply[11] = limit > 0 and '1' or '0'
return reply
