#!lua flags=no-writes
-- forecast_funds: what the budgets lack for an amount, and when the holds in its way will have ended.
--
-- KEYS[1]   ttl_index       zset, score = reclaim deadline in ms
-- ARGV[1]   tenant_id       the owner of the budgets
-- ARGV[2]   unit
-- ARGV[3]   amount          int64 as a decimal string: what a request wanted to hold or charge
-- ARGV[4]   reservation_id  the hold that a commit settles, or empty
-- ARGV[...] scopes          of the request; none for a commit, whose hold has them
-- RETURNS   FORECAST now_ms scope remaining requested short_by enough_at_ms? unknown holds(amount deadline_ms)*
-- BOUND     scopes of one subject (at most 6); 48 entries of the index, three fields of each hold
-- EMITS     nothing
-- @include  fields: FIELD
-- @include  keys: tag_of_key, reservation_key, budget_key
-- @include  now_ms: now_ms, ms_text
-- @include  int64: i64_figure, i64_is_amount, i64_less, i64_positive, i64_sub, i64_text
-- @include  hold: known_subject, load_hold
--
-- The reply describes the first scope, from the root, that lacks something. `holds` are the first five to end there, each with the
-- instant at which its amount is back at the latest. enough_at_ms is the instant at which all scopes have enough if nothing else
-- happens. If it is empty, `unknown` says why: TOO_MANY_HOLDS if more holds live in the partition than the script reads, else
-- FUNDING_REQUIRED. Holds that only a cleanup ends are in another index and do not count. If nothing is lacking any more, scope is
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

-- What each scope lacks, and how many scopes lack something.
local lacking, count = {}, 0
local first, first_remaining, first_short
for _, scope in ipairs(scopes) do
  local remaining = redis.call('HGET', budget_key(tag, unit, scope), 'remaining')
  local figure = remaining and i64_figure(remaining)
  if figure and i64_less(figure, requested) then
    local short = i64_sub(requested, figure) or MOST
    first, first_remaining, first_short = first or scope, first_remaining or remaining, first_short or short
    lacking[scope], count = short, count + 1
  end
end
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

local entries = redis.call('ZRANGE', ttl_index, 0, HOLDS_READ - 1, 'WITHSCORES')
for i = 1, #entries, 2 do
  local subject, held = live_hold(entries[i])
  local deadline = tonumber(entries[i + 1])
  for _, scope in ipairs(subject and subject.held or {}) do
    if scope == first and #holds < HOLDS_LISTED * 2 then
      holds[#holds + 1], holds[#holds + 2] = held, ms_text(deadline)
    end
    if lacking[scope] then
      lacking[scope] = i64_sub(lacking[scope], i64_figure(held))
      if not i64_positive(lacking[scope]) then
        lacking[scope], count = nil, count - 1
      end
    end
  end
  if count == 0 and enough_at == '' then
    -- A hold ends when its deadline has passed.
    enough_at = ms_text(math.max(deadline, now) + 1)
  end
  if enough_at ~= '' and #holds == HOLDS_LISTED * 2 then
    break
  end
end
local unknown = ''
if enough_at == '' then
  unknown = #entries == HOLDS_READ * 2 and 'TOO_MANY_HOLDS' or 'FUNDING_REQUIRED'
end
return { 'FORECAST', ms_text(now), first, first_remaining, i64_text(requested), i64_text(first_short), enough_at, unknown, unpack(holds) }
