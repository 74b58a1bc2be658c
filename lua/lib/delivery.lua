-- delivery: the record of one event on its way to one subscription, and the lane in which it waits for its first attempt.
-- @include keys, now_ms
--
-- A record's name, the ref, is made of the event and the subscription (and of the replay that repeats it), so that making it again is noticed.
-- Fields: st status, at attempts, fa first attempt and ca creation and co completion and nr next retry in ms, rs response status,
-- rt response time in ms, em error, ty event type, tr trace id and flags. A lane is named `<subscription_id>:<tenant>`.

-- How many deliveries wait in a lane. Ends the script when one of the keys of lanes is of another type: called before the first write.
local function lane_length(tag, lane)
  redis.call('SCARD', lanes_key(tag))
  return redis.call('LLEN', lane_key(tag, lane))
end

-- Ends the script when one of the keys that a new delivery needs is of another type. Called before the first write.
local function require_delivery_keys(tag, subscription, lane)
  redis.call('ZCARD', delivery_index_key(tag, subscription))
  lane_length(tag, lane)
end

-- `delivery` is { ref, subscription, tenant, event_type, trace (or ''), now, retention_ms }.
-- Returns false and changes nothing when it was made before.
local function create_delivery(tag, delivery)
  local key = delivery_key(tag, delivery.ref)
  if redis.call('EXISTS', key) == 1 then
    return false
  end
  local lane, now = delivery.subscription .. ':' .. delivery.tenant, ms_text(delivery.now)
  if delivery.trace == '' then
    redis.call('HSET', key, 'st', 'PENDING', 'at', '0', 'ca', now, 'ty', delivery.event_type)
  else
    redis.call('HSET', key, 'st', 'PENDING', 'at', '0', 'ca', now, 'ty', delivery.event_type, 'tr', delivery.trace)
  end
  redis.call('PEXPIRE', key, delivery.retention_ms)
  redis.call('ZADD', delivery_index_key(tag, delivery.subscription), now, delivery.ref)
  if redis.call('RPUSH', lane_key(tag, lane), delivery.ref) == 1 then
    redis.call('SADD', lanes_key(tag), lane)
  end
  return true
end

-- Forgets what a subscription's index holds of deliveries whose records are gone by age: more than `given`, which this run has added.
-- The index of a subscription that gets nothing any more goes with the last record. Called once a run for each subscription that was
-- given some. Returns how many entries it forgot.
local function keep_index_short(tag, subscription, now, retention_ms, given)
  local index = delivery_index_key(tag, subscription)
  local gone = #redis.call('ZRANGEBYSCORE', index, '-inf', '(' .. ms_text(now - retention_ms), 'LIMIT', 0, 2 * given + 8)
  if gone > 0 then
    redis.call('ZREMRANGEBYRANK', index, 0, gone - 1)
  end
  redis.call('PEXPIRE', index, ms_text(retention_ms))
  return gone
end

-- How far from the head of a lane a delivery is looked for. Deliveries are settled in the order of their lane, a few of them side by
-- side, and a retry stands in none. One that is left there is found to have ended when its turn comes.
local LANE_SEARCHED = 100

-- Takes a delivery out of its lane, and returns how many of the `waiting` are left.
local function leave_lane(tag, lane, ref, waiting)
  local key = lane_key(tag, lane)
  local left = waiting
  if redis.call('LINDEX', key, 0) == ref then
    redis.call('LPOP', key)
    left = left - 1
  elseif redis.call('LPOS', key, ref, 'MAXLEN', LANE_SEARCHED) then
    left = left - redis.call('LREM', key, 1, ref)
  end
  if left == 0 then
    redis.call('SREM', lanes_key(tag), lane)
  end
  return left
end
