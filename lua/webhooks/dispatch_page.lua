#!lua flags=allow-oom
-- dispatch_page: hold the lease of a partition's dispatch, and read the next events of its log for the consumer group.
-- It carries allow-oom because events must go on to their subscribers when Redis is full.
--
-- KEYS[1]   lease          string, the token of the instance that dispatches the partition
-- KEYS[2]   event_log      stream
-- ARGV[1]   token          the asking instance
-- ARGV[2]   lease_ms
-- ARGV[3]   take           1 takes or renews the lease and looks at the group, 0 reads under a lease that is held
-- ARGV[4]   after          '>' for events that were never read, an entry id for those after it that were read and not acknowledged
-- ARGV[5]   limit          most events to return; 0 reads none
-- RETURNS   HELD now_ms lease:renewed|taken|none lag:int? oldest_ms? queues:int? retrying:int? left_over:int? last_read?
--           more:flag events(entry_id field_count event{})* | OTHER now_ms lapses_in_ms | FREE now_ms
-- BOUND     limit events, 256 KiB of them
-- EMITS     nothing
-- @include  keys: tag_of_key, ordered_queues_key, retrying_key, outcomes_key
-- @include  now_ms: now_ms, ms_text
-- @include  dispatch_group: DISPATCH_GROUP, dispatch_group_state
-- @include  stream_walk: STREAM_BYTES, STREAM_PORTION, entry_bytes
--
-- Only the holder of the lease reads, so whoever takes it finds every event that was read and not acknowledged by asking after '0'.
-- With take 1 it tells of the partition: lag counts the events that are not acknowledged, and oldest_ms is the oldest of them, empty when
-- there is none; queues are those that are not empty, retrying the deliveries that will be tried again, and left_over those whose retry is
-- long overdue or whose failure was not counted, and last_read is the last event that was read. With take 0
-- these are empty. more is 1 where the bound ended the run. All instances are one consumer: the lease says which.
local lease, event_log = KEYS[1], KEYS[2]
local token, lease_ms, take, after, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local CONSUMER = 'dispatcher'
-- Whoever works on it should have been done with it after this time.
local LEFT_OVER_AFTER_MS = 30000

local now = now_ms()
local holder = redis.call('GET', lease)
if holder and holder ~= token then
  return { 'OTHER', ms_text(now), tostring(redis.call('PTTL', lease)) }
end
if not holder and take ~= '1' then
  return { 'FREE', ms_text(now) }
end

-- An entry that was read and not acknowledged is older than any that was not read.
local function oldest_waiting(state)
  if state.pending > 0 then
    return string.match(redis.call('XPENDING', event_log, DISPATCH_GROUP)[2], '^%d+')
  end
  local unread = redis.call('XRANGE', event_log, '(' .. state['last-delivered-id'], '+', 'COUNT', 1)[1]
  return unread and string.match(unread[1], '^%d+') or ''
end

local reply = { 'HELD', ms_text(now), 'none', '', '', '', '', '', '', '0' }
if take == '1' then
  local state = dispatch_group_state(event_log)
  local tag, overdue = tag_of_key(event_log), ms_text(now - LEFT_OVER_AFTER_MS)
  local queues, retrying = redis.call('SCARD', ordered_queues_key(tag)), redis.call('ZCARD', retrying_key(tag))
  local left_over = redis.call('ZCOUNT', retrying_key(tag), '-inf', overdue) + redis.call('ZCOUNT', outcomes_key(tag), '-inf', overdue)
  -- Nothing is refused below this line.
  if not state then
    redis.call('XGROUP', 'CREATE', event_log, DISPATCH_GROUP, '0', 'MKSTREAM')
    state = dispatch_group_state(event_log)
  end
  redis.call('SET', lease, token, 'PX', lease_ms)
  reply[3] = holder and 'renewed' or 'taken'
  reply[4] = tostring(state.pending + (state.lag or 0))
  reply[5] = oldest_waiting(state)
  reply[6], reply[7], reply[8], reply[9] = tostring(queues), tostring(retrying), tostring(left_over), state['last-delivered-id']
end
-- A few at a time, as walk_stream does.
local seen, bytes = 0, 0
while seen < limit and bytes < STREAM_BYTES do
  local wanted = math.min(STREAM_PORTION, limit - seen)
  local read = redis.call('XREADGROUP', 'GROUP', DISPATCH_GROUP, CONSUMER, 'COUNT', wanted, 'STREAMS', event_log, after)
  local entries = read and read[1][2] or {}
  for _, entry in ipairs(entries) do
    -- An entry that was deleted before it was acknowledged has no fields any more.
    local fields = entry[2] or {}
    reply[#reply + 1] = entry[1]
    reply[#reply + 1] = tostring(#fields / 2)
    for i = 1, #fields do
      reply[#reply + 1] = fields[i]
    end
    seen, bytes = seen + 1, bytes + entry_bytes(fields)
    after = after == '>' and after or entry[1]
  end
  if #entries < wanted then
    return reply
  end
end
reply[10] = limit > 0 and '1' or '0'
return reply
