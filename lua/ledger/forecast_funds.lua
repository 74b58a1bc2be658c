#!lua flags=no-writes
-- forecast_funds: what the budgets lack for an amount, and when holds that end or new periods will have returned it.
--
-- KEYS[1]   ttl_index       zset, score = reclaim deadline in ms
-- ARGV[1]   tenant_id       the owner of the budgets
-- ARGV[2]   unit
-- ARGV[3]   amount          int64 as a decimal string: what a request wanted to hold or charge
-- ARGV[4]   reservation_id  the hold that a commit settles, or empty
-- ARGV[...] scopes          of the request; none for a commit, whose hold has them
-- RETURNS   FORECAST now_ms scope remaining requested short_by enough_at_ms? unknown holds(amount deadline_ms)*
-- BOUND     scopes of one subject (at most 6), the next period of each; 48 entries of the index, three fields of each hold
-- EMITS     nothing
-- @include  fields: FIELD
-- @include  keys: tag_of_key, reservation_key, budget_key
-- @include  now_ms: now_ms, ms_text
-- @include  int64: i64_figure, i64_is_amount, i64_less, i64_saturating_add, i64_sub, i64_text
-- @include  hold: known_subject, load_hold
-- @include  period: read_period, states_until
--
-- The reply describes the first scope, from the root, that lacks something. `holds` are the first five to end there, each with the
-- instant at which its amount is back at the latest. enough_at_ms is the instant at which all scopes have enough if nothing else
-- happens. If it is empty, `unknown` says why: TOO_MANY_HOLDS if more holds live in the partition than the script reads, else
-- FUNDING_REQUIRED. The next period of each budget counts, later ones do not. It may also leave less than the current one. Behind the
-- last hold that the script reads, a new period gives an instant that is not always the first. Holds that only a cleanup ends are in another index and do not count. If nothing is lacking any more, scope is
-- empty and enough_at_ms is now_ms.
local ttl_index = KEYS[1]
local tenant_id, unit, amount, reservation_id = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local HOLDS_READ, HOLDS_LISTED, MOST = 48, 5, '9223372036854775807'

local tag = tag_of_key(ttl_index)
local now = now_ms()
local requested, scopes = i64_figure(amount), { unpack(ARGV, 5) }
if reservation_id ~= '' then
  local hold = load_hold(reservation_key(tag, reservation_id))
  local held = hold and hold.tenant == tenant_id and i64_is_amount(hold.amount) and i64_figure(hold.amount)
  scopes = held and hold.subject.held or {}
  requested = held and i64_sub(requested, held) or requested
end

-- What each scope needs beyond what remains, what holds have returned to it since, and how many scopes lack something.
local needs, returned, count, boundaries = {}, {}, 0, {}

local function lacks(scope)
  return needs[scope] and i64_less(returned[scope], needs[scope])
end

-- Changes what a scope needs, or what was returned to it.
local function change(list, scope, figure)
  local lacked = lacks(scope)
  list[scope] = figure
  count = count + (lacks(scope) and 1 or 0) - (lacked and 1 or 0)
end

local function need_of(remaining)
  return i64_sub(requested, i64_figure(remaining)) or MOST
end

-- Returns what remains in the current period, if there is one, and notes when the next one begins and what it needs.
local function read_periods(key, scope, period_end)
  if not period_end then
    return nil
  end
  local budget = read_period(key, scope)
  if budget.status == 'CLOSED' then
    return nil
  end
  local states = states_until(budget, now)
  local current = states[#states] or budget
  local following = states_until(budget, current.ends)
  local next_one = following[#following]
  if next_one and next_one.starts == current.ends then
    boundaries[#boundaries + 1] = { instant = current.ends, scope = scope, need = need_of(next_one.remaining) }
  end
  return current.remaining
end

local first, first_remaining, first_short
for _, scope in ipairs(scopes) do
  local key = budget_key(tag, unit, scope)
  local f = redis.call('HMGET', key, 'remaining', 'period_end')
  local remaining = f[1]
  if remaining then
    local readable, current = pcall(read_periods, key, scope, f[2])
    remaining = readable and current or remaining
    returned[scope] = 0
    change(needs, scope, need_of(remaining))
    if lacks(scope) and not first then
      first, first_remaining, first_short = scope, remaining, needs[scope]
    end
  end
end
table.sort(boundaries, function(a, b) return a.instant < b.instant end)
if not first then
  return { 'FORECAST', ms_text(now), '', '', i64_text(requested), '0', ms_text(now), '' }
end

local owner, enough_at, holds = tenant_id .. '\31', '', {}

-- The subject and amount of a live hold of this tenant in this unit, or nil. A damaged record returns nothing.
local function live_hold(id)
  local key = reservation_key(tag, id)
  local record = redis.pcall('HMGET', key, FIELD.state, FIELD.subject, FIELD.amount)
  if record.err or record[1] ~= 'ACTIVE' or id == reservation_id or not i64_is_amount(record[3]) then
    return nil
  end
  local text = record[2]
  if text and string.sub(text, 1, #owner) ~= owner then
    return nil
  end
  local subject = text and known_subject(text) or not text and load_hold(key).subject
  if subject.tenant == tenant_id and subject.unit == unit then
    return subject, record[3]
  end
end

-- Lets the periods begin that do so up to an instant.
local function pass_boundaries(instant)
  while boundaries[1] and boundaries[1].instant <= instant and enough_at == '' do
    local boundary = table.remove(boundaries, 1)
    change(needs, boundary.scope, boundary.need)
    if count == 0 and (not boundaries[1] or boundaries[1].instant > boundary.instant) then
      enough_at = ms_text(boundary.instant)
    end
  end
end

local entries = redis.call('ZRANGE', ttl_index, 0, HOLDS_READ - 1, 'WITHSCORES')
for i = 1, #entries, 2 do
  local subject, held = live_hold(entries[i])
  local deadline = tonumber(entries[i + 1])
  -- A hold ends when its deadline has passed.
  local ends_at = math.max(deadline, now) + 1
  pass_boundaries(ends_at)
  for _, scope in ipairs(subject and subject.held or {}) do
    if scope == first and #holds < HOLDS_LISTED * 2 then
      holds[#holds + 1], holds[#holds + 2] = held, ms_text(deadline)
    end
    if needs[scope] then
      change(returned, scope, i64_figure(i64_text(i64_saturating_add(returned[scope], i64_figure(held)))))
    end
  end
  if count == 0 and enough_at == '' then
    enough_at = ms_text(ends_at)
  end
  if enough_at ~= '' and #holds == HOLDS_LISTED * 2 then
    break
  end
end
pass_boundaries(math.huge)
local unknown = ''
if enough_at == '' then
  unknown = #entries == HOLDS_READ * 2 and 'TOO_MANY_HOLDS' or 'FUNDING_REQUIRED'
end
return { 'FORECAST', ms_text(now), first, first_remaining, i64_text(requested), i64_text(first_short), enough_at, unknown, unpack(holds) }
