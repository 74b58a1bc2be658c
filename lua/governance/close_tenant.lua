#!lua flags=allow-oom
-- close_tenant: one bounded step of closing what a closed tenant owns.
-- The order is: holds that the sweeper reclaims, holds that it does not (MANUAL_CLEANUP), budgets, webhook
-- subscriptions, API keys.
-- allow-oom: it returns budget, and must work when Redis is full.
--
-- KEYS[1]   tenant           hash
-- ARGV[1]   tenant_id
-- ARGV[2]   phase            holds, unswept, budgets, webhooks, keys or end: where the previous step stopped
-- ARGV[3]   cursor           same; empty at the start of a phase
-- ARGV[4]   limit            entries that a step examines
-- ARGV[5]   retention_ms     how long an ended hold is kept for the audit view
-- ARGV[6]   channel          pub/sub channel for the secret hashes of revoked keys
-- RETURNS   STEP next_phase next_cursor? now_ms changed:int outcomes(word detail? second_detail?)* | DONE | NOT_CLOSING
-- BOUND     limit entries, each at the scopes of one subject (at most 6)
-- EMITS     tenant.closed, budget.closed_via_tenant_cascade, reservation.released_via_tenant_cascade,
--           webhook.disabled_via_tenant_cascade, api_key.revoked_via_tenant_cascade; those of the expiry transition
-- @include  audit_log, close_budget_of_closed_tenant, disable_webhook_of_closed_tenant, event_writer, index_walk,
--           keys, release_holds_of_closed_tenant, revoke_key_of_closed_tenant, scope_tree, tenant_state, time
--
-- The outcomes are those of the expiry transition, for holds that expired before the tenant closed, and FAILED
-- budget|webhook|api_key <id> for a damaged record. The other records are closed nevertheless, and the caller does not
-- continue to the end. A closed tenant cannot create anything behind the cursor. The end emits tenant.closed once and
-- removes the tenant from the set of closing tenants; steps of other callers then return NOT_CLOSING.
local tenant_record = KEYS[1]
local tenant_id, phase, cursor, limit, retention_ms, channel = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]),
  ARGV[5], ARGV[6]

local tag = keys.tag_of(tenant_record)

local marker = redis.call('HGET', keys.closing(tag), tenant_id)
local tenant = tenant_state.read_tenant(tenant_record)
if not marker or not tenant or tenant.status ~= 'CLOSED' then
  return { 'NOT_CLOSING' }
end
local now = time.now_ms()
local actor, key_id, request_id, trace, prior_status = string.match(marker, '^([^|]*)|([^|]*)|([^|]*)|([^|]*)|([^|]*)$')
local origin = { actor = actor, key = key_id, request = request_id, trace = trace,
  correlation = 'tenant_close_cascade:' .. tenant_id .. ':' .. request_id }
event_writer.require_event_log(tag)
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
local changed = 0
local reply = { 'STEP', '', '', '', '' }
local function append_outcome(outcome)
  for part = 1, 3 do
    reply[#reply + 1] = outcome[part] or ''
  end
end

-- Walks over the live holds in one index of the partition, in the order of their deadlines. The cursor is the deadline
-- and id of the last hold: holds may share a deadline, and that hold may have left the index since.
local function close_holds(index)
  local deadline, last_id = string.match(cursor, '^(%S+) (%S+)$')
  local entries = index_walk.index_stretch(index, false, '-inf', '+inf', deadline or '', last_id or '', limit)
  local ids = {}
  for i = 1, #entries, 2 do
    ids[#ids + 1] = entries[i]
  end
  local ended, outcomes = release_holds_of_closed_tenant(tag, tenant_id, index, ids, now, retention_ms, origin)
  changed = changed + ended
  for _, outcome in ipairs(outcomes) do
    append_outcome(outcome)
  end
  return #ids == limit and entries[#entries] .. ' ' .. ids[limit] or nil
end

-- Budgets and webhooks are in the order of their names, keys in the order of creation. No index loses a member
-- meanwhile.
local function close_owned(members, close)
  for _, member in ipairs(members) do
    local outcome, kind, name = close(member)
    if outcome == 'FAILED' then
      append_outcome({ 'FAILED', kind, name or member })
    elseif outcome then
      changed = changed + 1
    end
  end
  return #members == limit and members[#members] or nil
end

local function close_budgets()
  local from = cursor == '' and '-' or '(' .. cursor
  return close_owned(redis.call('ZRANGEBYLEX', keys.budget_index(tag, tenant_id), from, '+', 'LIMIT', 0, limit),
    function(member)
    local scope, unit = scope_tree.budget_of_member(member)
    return close_budget_of_closed_tenant(tag, tenant_id, scope, unit, now, origin), 'budget', scope .. ' ' .. unit
  end)
end

local function close_webhooks()
  local from = cursor == '' and '-' or '(' .. cursor
  return close_owned(redis.call('ZRANGEBYLEX', keys.webhook_index(tag, tenant_id), from, '+', 'LIMIT', 0, limit),
    function(member)
    return disable_webhook_of_closed_tenant(tag, tenant_id, member, now, origin), 'webhook'
  end)
end

local function close_keys()
  local index = keys.api_key_index(tag, tenant_id)
  local from = cursor == '' and 0 or (redis.call('ZRANK', index, cursor) or -1) + 1
  return close_owned(redis.call('ZRANGE', index, from, from + limit - 1), function(member)
    return revoke_key_of_closed_tenant(tag, tenant_id, member, now, channel, origin), 'api_key'
  end)
end

if phase == 'end' then
  if redis.call('HSETNX', tenant_record, 'closed_told', '1') == 1 then
    -- All tenants closed by one bulk action share its correlation id.
    origin.correlation = redis.call('HGET', tenant_record, 'close_correlation') or origin.correlation
    event_writer.append_event(tag, 'tenant.closed', tenant_id, nil, origin,
      { 'tenant_id', tenant_id, 'previous_status', prior_status, 'new_status', 'CLOSED', 'changed_fields',
      '["status"]' })
  end
  redis.call('HDEL', keys.closing(tag), tenant_id)
  return { 'DONE' }
end
local next_phase, next_cursor
if phase == 'holds' then
  next_phase, next_cursor = 'unswept', close_holds(keys.ttl_index(tag))
elseif phase == 'unswept' then
  next_phase, next_cursor = 'budgets', close_holds(keys.cleanup_index(tag))
elseif phase == 'budgets' then
  next_phase, next_cursor = 'webhooks', close_budgets()
elseif phase == 'webhooks' then
  next_phase, next_cursor = 'keys', close_webhooks()
else
  next_phase, next_cursor = 'end', close_keys()
end
if next_cursor then
  next_phase = phase
end
reply[2], reply[3], reply[4], reply[5] = next_phase, next_cursor or '', time.ms_text(now), time.ms_text(changed)
return reply
