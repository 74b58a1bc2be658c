-- debit_record: what the event log, the only record of direct debits, has of one and of its refunds.
-- @include field, keys, stream_walk, time
--
-- The id of a debit ends with the instant of its run, in hex, so its event is found without an index: it is among the
-- first ones from that instant on. Refunds are correlated by the id, and the last one tells their sum. They are later
-- than the debit, so no trim removes one of them before it.
local INSTANT_DIGITS = 11
-- A run appends a few hundred events at most. Redis' clock may have stepped back before it.
local MOST_EVENTS = 2000

local function with_instant(id, now)
  return id .. string.format('%011x', now)
end

local function figures_of(entry)
  local figures = {}
  for i = 1, entry and #entry[2] or 0, 2 do
    figures[entry[2][i]] = entry[2][i + 1]
  end
  return figures
end

-- The scopes above a scope and itself, root first, and those of them in the mask.
local function scopes_of(leaf, mask)
  local scopes, held, path = {}, {}, nil
  for segment in string.gmatch(leaf or '', '[^/]+') do
    path = path and path .. '/' .. segment or segment
    scopes[#scopes + 1] = path
    held[#held + 1] = string.sub(mask or '', #scopes, #scopes) == '1' and path or nil
  end
  return scopes, held
end

-- The entry, instant, tenant, unit, scopes and charge of a debit, or nil if there is none with this id.
local function find(tag, id)
  local instant, found = tonumber(string.sub(id, -INSTANT_DIGITS), 16), nil
  stream_walk.walk_stream('XRANGE', keys.event_log(tag), time.ms_text(instant or 0), '+', MOST_EVENTS, function(entry)
    if stream_walk.value_of(entry[2], 'event_id') == id
      and stream_walk.value_of(entry[2], 'ty') == 'custom.direct_debit.applied' then
      found = entry
    end
    return found
  end)
  if not found then
    return nil
  end
  local f = figures_of(found)
  local scopes, held = scopes_of(f.sc, f[field.scope_mask])
  return { state = 'APPLIED', entry = found[1], charged_at = instant, unit = f.unit, charged = f.charged,
    tenant = string.match(f.sc or '', '^tenant:([^/]+)'), subject = { scopes = scopes, held = held } }
end

local function refunded_of(tag, id)
  local last = redis.call('XREVRANGE', keys.correlated_events(tag, id), '+', '-', 'COUNT', 1)[1]
  local entry = last and redis.call('XRANGE', keys.event_log(tag), last[1], last[1])[1]
  return figures_of(entry).refunded_total or '0'
end

return { find = find, refunded_of = refunded_of, with_instant = with_instant }
