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

-- The entry, instant, tenant, unit, scopes and charge of a debit.
local function debit_of(entry)
  local f = figures_of(entry)
  local scopes, held = scopes_of(f.sc, f[field.scope_mask])
  return { state = 'APPLIED', entry = entry[1], id = f.event_id,
    charged_at = tonumber(string.sub(f.event_id, -INSTANT_DIGITS), 16), unit = f.unit, charged = f.charged,
    credits = f[field.credits],
    tenant = string.match(f.sc or '', '^tenant:([^/]+)'), subject = { scopes = scopes, held = held } }
end

-- The debit with this id, or nil.
local function find(tag, id)
  local instant, found = tonumber(string.sub(id, -INSTANT_DIGITS), 16), nil
  stream_walk.walk_stream('XRANGE', keys.event_log(tag), time.ms_text(instant or 0), '+', MOST_EVENTS, function(entry)
    if stream_walk.value_of(entry[2], 'event_id') == id
      and stream_walk.value_of(entry[2], 'ty') == 'custom.direct_debit.applied' then
      found = entry
    end
    return found
  end)
  return found and debit_of(found)
end

-- The debit whose event is this entry, or nil if it has gone or is of another kind.
local function of_event(tag, entry_id)
  local is_id = string.find(entry_id, '^%d+%-%d+$')
  local entry = is_id and redis.call('XRANGE', keys.event_log(tag), entry_id, entry_id)[1]
  local is_debit = entry and stream_walk.value_of(entry[2], 'ty') == 'custom.direct_debit.applied'
  return is_debit and stream_walk.value_of(entry[2], 'event_id') and debit_of(entry) or nil
end

local function refunded_of(tag, id)
  local last = redis.call('XREVRANGE', keys.correlated_events(tag, id), '+', '-', 'COUNT', 1)[1]
  local entry = last and redis.call('XRANGE', keys.event_log(tag), last[1], last[1])[1]
  return figures_of(entry).refunded_total or '0'
end

return { find = find, of_event = of_event, refunded_of = refunded_of, with_instant = with_instant }
