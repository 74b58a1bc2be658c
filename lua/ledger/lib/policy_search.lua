-- policy_search: finds which of a tenant's policies governs a request, and what it sets.
-- @include kept, keys
--
-- A policy is a hash: tenant_id, name, description, scope_pattern, priority, status ACTIVE or DISABLED, effective_from
-- and effective_until (ms), created_at, updated_at, and what it sets: caps (JSON), commit_overage_policy,
-- default_ttl_ms, max_ttl_ms, max_extensions, max_reservations_per_minute, max_commits_per_minute,
-- charge_on_expiry_percent, and the rules on actions of lua/lib/action_rules.lua. Fields that do not apply are unset.
--
-- One hash per tenant maps each pattern to its ACTIVE policies, separated by spaces, each as
-- `policy_id,priority,from,until,created` with times in ms or empty. They are in order of precedence: by priority, then
-- the older first. A request matches only the patterns that its own scopes form, so one HMGET finds the candidates,
-- however many policies the tenant has, and only the first policy in force of each pattern matters.

-- What earlier runs have found, by the deepest scope, which the others follow from: the patterns, and the policy with
-- the texts that it was made of. Each run reads the texts again, but unchanged ones need not be parsed again.
local SCOPES_KEPT = 500
local known_scopes = kept(SCOPES_KEPT, function(_, scopes)
  local patterns = {}
  for i = 1, #scopes do
    patterns[#patterns + 1] = scopes[i]
    if i < #scopes then
      patterns[#patterns + 1] = scopes[i] .. '/*'
    end
  end
  return { patterns = patterns }
end)

local function is_same(texts, others)
  for i = 1, #texts do
    if texts[i] ~= others[i] then
      return false
    end
  end
  return true
end

-- The id of the policy of the highest priority whose pattern and time match, and the deepest of the scopes that its
-- pattern matches. Of equal policies the one with the longer pattern wins, then the older one. The third value says
-- whether any time was looked at.
local function winner(scopes, found, now)
  local best, best_priority, best_scope, has_times = nil, -1, nil, false
  for i = #found, 1, -1 do
    for id, priority, from, ends in string.gmatch(found[i] or '', '([^%s,]+),(%d+),(%-?%d*),(%-?%d*),') do
      has_times = has_times or from ~= '' or ends ~= ''
      if (from == '' or now >= tonumber(from)) and (ends == '' or now < tonumber(ends)) then
        if tonumber(priority) > best_priority then
          best, best_priority, best_scope = id, tonumber(priority), scopes[i % 2 == 1 and (i + 1) / 2 or #scopes]
        end
        break
      end
    end
  end
  return best, best_scope, has_times
end

-- The policy that governs a request with these scopes, or nil. `scope` is the deepest of them that its pattern matches.
local function governing_policy(tag, tenant_id, scopes, now)
  local known = known_scopes(scopes[#scopes], scopes)
  local found = redis.call('HMGET', keys.policy_pattern(tag, tenant_id), unpack(known.patterns))
  local best, scope = known.best, known.scope
  if not known.found or known.has_times or not is_same(found, known.found) then
    best, scope, known.has_times = winner(scopes, found, now)
    known.found, known.best, known.scope, known.policy = found, best, scope, nil
  end
  if not best then
    return nil
  end
  local key = keys.policy(tag, best)
  local fields = redis.call('HMGET', key, 'tenant_id', 'caps', 'commit_overage_policy', 'default_ttl_ms', 'max_ttl_ms',
    'max_extensions', 'max_reservations_per_minute', 'max_commits_per_minute', 'rules', 'charge_on_expiry_percent')
  if fields[1] ~= tenant_id then
    error('corrupt policy record ' .. key)
  end
  if not known.policy or not is_same(fields, known.fields) then
    known.fields = fields
    known.policy = {
      id = best, scope = scope, rules = fields[9], caps = fields[2], overage_policy = fields[3],
      default_ttl_ms = tonumber(fields[4] or ''), max_ttl_ms = tonumber(fields[5] or ''), max_extensions =
      tonumber(fields[6] or ''), max_reservations = tonumber(fields[7] or ''), max_commits = tonumber(fields[8] or ''),
      charge_percent = fields[10],
    }
  end
  return known.policy
end

-- The same, found once for all calls of a run with the same scopes.
local function group_policy(group, tag, tenant_id, scopes, now)
  group.policies = group.policies or {}
  local leaf = scopes[#scopes]
  local known = group.policies[leaf]
  if known == nil then
    known = governing_policy(tag, tenant_id, scopes, now) or false
    group.policies[leaf] = known
  end
  return known or nil
end

return { governing_policy = governing_policy, group_policy = group_policy }
