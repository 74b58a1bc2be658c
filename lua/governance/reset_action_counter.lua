#!lua
-- reset_action_counter: set one of a tenant's counters of actions to zero.
--
-- KEYS[1]   run_counter_index  sorted set of the counters of the tenant's runs; only its partition is used
-- ARGV[1]   tenant_id
-- ARGV[2]   scope            canonical
-- ARGV[3]   window
-- ARGV[4]   window_key       the minute, hour or day in UTC, or the run, percent-encoded
-- ARGV[5]   action_kind      __risk__ for a risk class
-- ARGV[6]   risk_class       or empty
-- ARGV[7]   reason           or empty
-- ARGV[8-11] origin           actor is admin
-- RETURNS   RESET kind used:int limit:int policy_id? last_ms expires_ms previous_used:int | NOT_FOUND
-- BOUND     one counter
-- EMITS     quota.counter_reset
-- @include  action_counters, audit_log, event_writer, keys, time
--
-- Only counters that still count are found. A threshold that was already reported in this window is not reported again.
-- A run begins anew, so a hold from before the reset takes nothing off when it ends.
local tenant_id, scope, window_name, window_key, action_kind, risk_class, reason = ARGV[1], ARGV[2], ARGV[3], ARGV[4],
  ARGV[5], ARGV[6], ARGV[7]
local origin = { actor = ARGV[8], key = ARGV[9], request = ARGV[10], trace = ARGV[11] }

local tag = keys.tag_of(KEYS[1])
local now = time.now_ms()
local window = action_counters.WINDOWS[window_name]
if window.ms and window_key ~= action_counters.date_of(window, math.floor(now / window.ms)) then
  return { 'NOT_FOUND' }
end
local key = window.ms and action_counters.day_counters_key(tag, tenant_id, now)
  or keys.run_counters(tag, tenant_id, window_key)
local kind = risk_class ~= '' and action_kind .. ':' .. risk_class or action_kind
local field = scope .. '|' .. window.code .. '|' .. kind
local text = redis.call('HGET', key, field)
local counter = text
  and (action_counters.parse_counter(text) or error('corrupt action counter ' .. field .. ' in ' .. key))
if not counter or not action_counters.is_current(window, counter, now) then
  return { 'NOT_FOUND' }
end
event_writer.require_event_log(tag)
audit_log.require_audit_log(tag)
redis.call('ZCARD', keys.run_index(tag, tenant_id))

-- Nothing is refused below this line.
local previous_used, run = time.ms_text(counter.used), not window.ms and window_key or nil
counter.used, counter.last = 0, now
if run then
  -- Two resets may come in the same millisecond.
  counter.bucket = math.max(now, counter.bucket + 1)
  counter.bucket_text = time.ms_text(counter.bucket)
end
redis.call('HSET', key, field, action_counters.counter_text(counter))
if run then
  action_counters.keep_run(tag, key, tenant_id, run, now, counter.ttl or 0, false)
end
origin.correlation = action_counters.counter_correlation(tenant_id, scope, risk_class ~= '' and risk_class
  or action_kind, window_name, window_key)
event_writer.append_event(tag, 'quota.counter_reset', tenant_id, scope, origin,
  { 'tenant_id', tenant_id, 'action_kind', action_kind, 'risk_class', risk_class, 'window', window_name, 'window_key',
  window_key,
    'previous_used', previous_used, 'limit', time.ms_text(counter.limit), 'actor_id', origin.key ~= '' and origin.key
    or origin.actor, 'reason', reason, 'policy_id', counter.policy })
audit_log.append_audit(tag, 'resetActionQuotaCounter', 200, tenant_id, 'action_quota_counter',
  origin.correlation, origin,
  { 'scope', scope, 'action_kind', action_kind, 'risk_class', risk_class, 'window', window_name, 'window_key',
  window_key,
    'previous_used', previous_used, 'reason', reason })
local _, used, limit, policy_id, last_ms, expires_ms =
  unpack(action_counters.counter_figures(window, counter, window_key))
return { 'RESET', kind, used, limit, policy_id, last_ms, expires_ms, previous_used }
