-- delivery: the record of one event on its way to one subscription, and the lane in which it waits for its first attempt.
-- @include keys, now_ms
--
-- A record's name, the ref, is made of the event and the subscription (and of the replay that repeats it), so that making it again is noticed.
-- Fields: st status, at attempts, fa first attempt and ca creation and co completion and nr next retry in ms, rs response status,
-- rt response time in ms, em error, ty event type, tr trace id and flags. A lane is named `<subscription_id>:<tenant>`.

-- Ends the script when one of the keys that a delivery needs is of another type. Called before the first write.
local function require_delivery_keys(tag, subscription, lane)
  redis.call('ZCARD', delivery_index_key(tag, subscription))
  redis.call('LLEN', lane_key(tag, lane))
  redis.call('SCARD', lanes_key(tag))
end

-- `delivery` is { ref, subscription, tenant, event_type, trace (or ''), now, retention_ms }.
-- Returns false and changes nothing when it was made before.
local function create_delivery(tag, delivery)
  local key = delivery_key(tag, delivery.ref)
  if redis.call('EXISTS', key) == 1 then
    return false
  end
  local lane, now = delivery.subscription .. ':' .. delivery.tenant, ms_text(delivery.now)
  redis.call('HSET', key, 'st', 'PENDING', 'at', '0', 'ca', now, 'ty', delivery.event_type)
  if delivery.trace ~= '' then
    redis.call('HSET', key, 'tr', delivery.trace)
  end
  redis.call('PEXPIRE', key, delivery.retention_ms)
  redis.call('ZADD', delivery_index_key(tag, delivery.subscription), now, delivery.ref)
  redis.call('RPUSH', lane_key(tag, lane), delivery.ref)
  redis.call('SADD', lanes_key(tag), lane)
  return true
end

-- Takes a delivery out of its lane, wherever it stands there, and returns how many are left.
local function leave_lane(tag, lane, ref)
  local key = lane_key(tag, lane)
  if redis.call('LINDEX', key, 0) == ref then
    redis.call('LPOP', key)
  else
    redis.call('LREM', key, 1, ref)
  end
  local left = redis.call('LLEN', key)
  if left == 0 then
    redis.call('SREM', lanes_key(tag), lane)
  end
  return left
end
