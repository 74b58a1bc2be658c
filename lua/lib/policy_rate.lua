-- policy_rate: the rate limits of the governing policy, counted for the policy as a whole by the minutes of Redis'
-- clock.
-- @include keys, tenant_state, time
--
-- `kind` is 'reservations' or 'commits'. Only requests that succeed count, so a replay, a refused request and a dry run
-- do not. All instances share the counts. A counter is one key per minute, and expires with it.
local RATE_WINDOW_MS = 60000

local function rate_counter(tag, policy, kind, now)
  return keys.policy_rate(tag, policy.id, kind, math.floor(now / RATE_WINDOW_MS))
end

-- The refusal of one more request, or nil: RATE_LIMITED, the limit, what it allows and the time until the next minute
-- in ms. `rehearsed` is how many requests of a rehearsal are not counted in Redis.
local function rate_refusal(tag, policy, kind, now, rehearsed)
  local allowed = policy and policy['max_' .. kind]
  if not allowed then
    return nil
  end
  local used = redis.call('GET', rate_counter(tag, policy, kind, now))
  -- INCR must not fail after the first write, and it refuses leading zeros.
  if used and not string.find(used, '^[1-9]%d*$') then
    error('corrupt rate counter of policy ' .. policy.id)
  end
  if tonumber(used or 0) + (rehearsed or 0) < allowed then
    return nil
  end
  return { 'RATE_LIMITED', 'max_' .. kind .. '_per_minute', time.ms_text(allowed),
    time.ms_text(RATE_WINDOW_MS - now % RATE_WINDOW_MS) }
end

-- Counts a request that rate_refusal has let pass.
local function count_rate(tag, policy, kind, now)
  if policy and policy['max_' .. kind] then
    local counter = rate_counter(tag, policy, kind, now)
    redis.call('INCR', counter)
    redis.call('PEXPIRE', counter, RATE_WINDOW_MS)
  end
end

-- Whether a policy's record limits commits.
local function limits_commits(record)
  return record.status == 'ACTIVE' and record.max_commits_per_minute ~= nil
end

-- Counts a policy that has begun (1) or ceased (-1) to limit commits. The tenant's record has the number of such
-- policies, and not the field without any: commits look for the governing policy only if it is there.
local function count_commit_limits(tag, tenant_id, change)
  local tenant = keys.tenant(tag, tenant_id)
  local number = (tonumber(redis.call('HGET', tenant, 'commit_rates') or '') or 0) + change
  tenant_state.set_derived(tenant, 'commit_rates', number > 0 and time.ms_text(number) or nil)
end

return {
  count_commit_limits = count_commit_limits, count_rate = count_rate, limits_commits = limits_commits,
  rate_refusal = rate_refusal,
}
