-- delivery_record: the record of one event's delivery to one subscription, and the queue in which it waits for its
-- first attempt.
-- @include keys, time
--
-- A record's name, the ref, consists of the event, the subscription and, for a repeated delivery, the replay, so
-- creating it twice is detected.
-- Fields: st status, at attempts, fa first attempt and ca creation and co completion and nr next retry in ms, rs
-- response status, rt response time in ms, em error, ab how the last answer begins if it was a refusal, ty event type,
-- tr trace id and flags. A queue is named `<subscription_id>:<tenant>`.

-- How many deliveries wait in a queue. Ends the script if one of the queue's keys has another type: called before the
-- first write.
local function queue_length(tag, queue)
  redis.call('SCARD', keys.ordered_queues(tag))
  return redis.call('LLEN', keys.ordered_queue(tag, queue))
end

-- Ends the script if one of the keys of a new delivery has another type. Called before the first write.
local function require_delivery_keys(tag, subscription, queue)
  redis.call('ZCARD', keys.delivery_index(tag, subscription))
  queue_length(tag, queue)
end

-- `delivery` is { ref, subscription, tenant, event_type, trace (or ''), now, retention_ms }.
-- Returns the length of its queue. If the delivery already exists, returns nil and changes nothing.
local function create_delivery(tag, delivery)
  local key = keys.delivery(tag, delivery.ref)
  if redis.call('EXISTS', key) == 1 then
    return nil
  end
  local queue, now = delivery.subscription .. ':' .. delivery.tenant, time.ms_text(delivery.now)
  if delivery.trace == '' then
    redis.call('HSET', key, 'st', 'PENDING', 'at', '0', 'ca', now, 'ty', delivery.event_type)
  else
    redis.call('HSET', key, 'st', 'PENDING', 'at', '0', 'ca', now, 'ty', delivery.event_type, 'tr', delivery.trace)
  end
  redis.call('PEXPIRE', key, delivery.retention_ms)
  redis.call('ZADD', keys.delivery_index(tag, delivery.subscription), now, delivery.ref)
  local length = redis.call('RPUSH', keys.ordered_queue(tag, queue), delivery.ref)
  if length == 1 then
    redis.call('SADD', keys.ordered_queues(tag), queue)
  end
  return length
end

-- Removes index entries of deliveries whose records have expired: at most 2 * given + 8, where `given` is how many
-- entries this run has added. An index that gets no new entries expires with its last record. Called once per run for
-- each subscription that got entries. Records expire by Redis' clock, so a test clock that is ahead of it removes none.
-- Returns how many entries it removed.
local function keep_index_short(tag, subscription, retention_ms, given)
  local index = keys.delivery_index(tag, subscription)
  local gone = #redis.call('ZRANGEBYSCORE', index, '-inf', '(' .. time.ms_text(time.redis_ms() - retention_ms), 'LIMIT',
    0, 2 * given + 8)
  if gone > 0 then
    redis.call('ZREMRANGEBYRANK', index, 0, gone - 1)
  end
  redis.call('PEXPIRE', index, time.ms_text(retention_ms))
  return gone
end

-- How far from its head a queue is searched for a delivery. Deliveries are settled in the order of their queue, a few
-- concurrently, and retries are in no queue. A delivery that stays in the queue is found to have ended when its turn
-- comes.
local QUEUE_SEARCHED = 100

-- Removes a delivery from its queue. Returns how many of the `waiting` are left.
local function leave_queue(tag, queue, ref, waiting)
  local key = keys.ordered_queue(tag, queue)
  local left = waiting
  if redis.call('LINDEX', key, 0) == ref then
    redis.call('LPOP', key)
    left = left - 1
  elseif redis.call('LPOS', key, ref, 'MAXLEN', QUEUE_SEARCHED) then
    left = left - redis.call('LREM', key, 1, ref)
  end
  if left == 0 then
    redis.call('SREM', keys.ordered_queues(tag), queue)
  end
  return left
end

-- Of how many deliveries of a subscription, in this partition, the last refusal is kept: each may have 2 KiB.
local ANSWERS_KEPT = 100

-- Notes that a delivery's record has the answer of the endpoint, and drops the oldest of too many.
local function note_answer(tag, subscription, ref, now)
  local answers = keys.delivery_answers(tag, subscription)
  redis.call('ZADD', answers, time.ms_text(now), ref)
  local oldest = redis.call('ZRANGE', answers, 0, -ANSWERS_KEPT - 1)[1]
  if oldest then
    redis.call('ZREM', answers, oldest)
    redis.pcall('HDEL', keys.delivery(tag, oldest), 'ab')
  end
  redis.call('PEXPIRE', answers, redis.call('PTTL', keys.delivery(tag, ref)))
end

return {
  create_delivery = create_delivery, keep_index_short = keep_index_short, leave_queue = leave_queue,
  note_answer = note_answer,
  queue_length = queue_length, require_delivery_keys = require_delivery_keys,
}
