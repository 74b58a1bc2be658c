#!lua flags=allow-oom
-- settle_delivery: record the outcome of a delivery, and remove it from its queue.
-- allow-oom: a full Redis must not cause completed deliveries to be sent again.
--
-- KEYS[1]   delivery         hash
-- ARGV[1]   ref
-- ARGV[2]   queue
-- ARGV[3]   outcome          SUCCESS, RETRYING or FAILED
-- ARGV[4]   attempted        1 if an attempt was made, 0 if the delivery was given up without one
-- ARGV[5]   duration_ms      of the attempt
-- ARGV[6]   response_status  or empty
-- ARGV[7]   message          error message, or empty
-- ARGV[8]   retry_in_ms      with RETRYING
-- ARGV[9]   announce         1 if a FAILED delivery emits an event and counts against its subscription
-- ARGV[10]  reason           of the failure, from a closed set
-- ARGV[11]  subscription_id
-- ARGV[12]  delivery_id      public
-- ARGV[13]  event_id         public
-- ARGV[14]  trace            trace id and flags of the event, or empty
-- ARGV[15]  request_id       of the request that caused the event, or empty
-- ARGV[16]  answer           how the endpoint's answer begins, or empty
-- RETURNS   SETTLED now_ms attempts:int left_in_queue:int | ENDED now_ms final_status left_in_queue:int
--           | GONE now_ms left_in_queue:int
-- BOUND     one delivery, and 100 places of its queue if it is not first
-- EMITS     system.webhook_delivery_failed
-- @include  delivery_record, event_writer, keys, time
--
-- ENDED: the delivery was settled before; it does not change. A failed delivery of a system.webhook_delivery_failed
-- event emits none, or they would never end. A failure that counts stays in the index `outcomes` until
-- record_delivery_outcome has counted it.
local delivery = KEYS[1]
local ref, queue, outcome, attempted, duration_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local response_status, message, retry_in_ms = ARGV[6], ARGV[7], tonumber(ARGV[8])
local announce, reason, subscription_id, delivery_id, event_id, answer = ARGV[9], ARGV[10], ARGV[11], ARGV[12],
  ARGV[13], ARGV[16]
local origin = { actor = 'system', request = ARGV[15], trace = ARGV[14] }

local tag = keys.tag_of(delivery)
local now = time.now_ms()
local waiting = delivery_record.queue_length(tag, queue)
local record = redis.call('HMGET', delivery, 'st', 'at', 'fa', 'ty', 'al')
local status, attempts, first_attempt, event_type = record[1], tonumber(record[2] or '0') or 0, record[3], record[4]
-- A first attempt that succeeds, as nearly all do, does not touch the indexes of retries and failures.
local was_first = status == 'PENDING'
if not was_first or outcome ~= 'SUCCESS' then
  redis.call('ZCARD', keys.retrying(tag))
  redis.call('ZCARD', keys.outcomes(tag))
  redis.call('ZCARD', keys.delivery_answers(tag, subscription_id))
  event_writer.require_event_log(tag)
end

-- Nothing is refused below this line.
local left = tostring(delivery_record.leave_queue(tag, queue, ref, waiting))
if not was_first then
  redis.call('ZREM', keys.retrying(tag), ref)
end
if not status then
  return { 'GONE', time.ms_text(now), left }
end
if status == 'SUCCESS' or status == 'FAILED' then
  return { 'ENDED', time.ms_text(now), status, left }
end

local changes = { 'HSET', delivery, 'st', outcome }
local function set(name, value)
  changes[#changes + 1] = name
  changes[#changes + 1] = value
end
if attempted == '1' then
  attempts = attempts + 1
  set('at', tostring(attempts))
  set('rt', ARGV[5])
  set('rs', response_status)
  local begun = time.ms_text(now - duration_ms)
  if not first_attempt then
    set('fa', begun)
  end
  if not was_first or answer ~= '' then
    set('ab', answer)
  end
  -- The other fields say all about a delivery that ends with its first attempt, as nearly all do.
  if not was_first or outcome == 'RETRYING' then
    local line = table.concat({ begun, ARGV[5], response_status, (string.gsub(message, '%c', ' ')) }, ' ')
    set('al', record[5] and record[5] .. '\n' .. line or line)
  end
end
set('em', message)
if outcome == 'RETRYING' then
  local next_retry = time.ms_text(now + retry_in_ms)
  set('nr', next_retry)
  redis.call('ZADD', keys.retrying(tag), next_retry, ref)
else
  set('co', time.ms_text(now))
  if not was_first then
    redis.call('HDEL', delivery, 'nr')
  end
end
redis.call(unpack(changes))
if attempted == '1' and answer ~= '' then
  delivery_record.note_answer(tag, subscription_id, ref, now)
end

if outcome == 'FAILED' and announce == '1' then
  redis.call('ZADD', keys.outcomes(tag), time.ms_text(now), ref)
  if event_type ~= 'system.webhook_delivery_failed' then
    event_writer.append_event(tag, 'system.webhook_delivery_failed', '__system__', nil, origin, {
      'component', 'webhook_dispatcher', 'message', message, 'severity', 'warning', 'subscription_id', subscription_id,
      'delivery_id', delivery_id, 'event_id', event_id, 'failed_event_type', event_type, 'attempts', tostring(attempts),
      'reason', reason, 'response_status', response_status,
    })
  end
end
return { 'SETTLED', time.ms_text(now), tostring(attempts), left }
