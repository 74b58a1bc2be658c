#!lua flags=no-writes
-- verify_holds: the sums of a tenant's live holds at each budget, in bounded pages of its reservation index.
--
-- KEYS[1]   reservation_index  sorted set of the tenant's reservations, score = created_at_ms
-- ARGV[1]   walked_ms      where the previous run ended: created_at_ms, or empty to start
-- ARGV[2]   walked_id      its reservation
-- ARGV[3]   examine        maximum entries to examine
-- ARGV[4]   first_ms       start of the window in which the budgets were read
-- ARGV[5]   passed_ms      reservations that ended later are listed in ended
-- ARGV[...] budgets as 'unit scope' whose live holds are to be listed
-- RETURNS   walked_ms:text? walked_id? has_stepped:flag sum_count sums(budget holds:int amount)* moving_count
--           moving(reservation_id born_ms
--             ended_ms? amount budget_count budgets*)* unreadable_count unreadable(reservation_id reason
--             quarantined:flag)* named_count named(reservation_id amount quarantined:flag budget)* ended_count
--             ended(reservation_id ended_ms:int)*
-- BOUND     examine entries
-- EMITS     nothing
-- @include  field, hold_record, index_walk, int64, keys, lists, time
--
-- A budget is named by its 'unit scope'.
-- The sums cover holds that were created before the window and are live. Those created or ended later are listed in
-- moving, with an empty ended_ms while live. walked_ms is empty at the end of the index. An overdue hold is live until
-- it is expired, because its budgets still hold the amount.
-- An instant in the future was written before the clock stepped back. What it dates has happened, before the window;
-- has_stepped tells that other instants may be wrong as well.
local index = KEYS[1]
local walked_ms, walked_id, examine = ARGV[1], ARGV[2], tonumber(ARGV[3])
local first_ms, passed_ms = tonumber(ARGV[4]), tonumber(ARGV[5])
local first_named = 6
local wanted = {}
for i = first_named, #ARGV do
  wanted[ARGV[i]] = true
end

local tag = keys.tag_of(index)
local now = time.now_ms()
local has_stepped = false
local sums, moving, unreadable, named, ended_later = {}, {}, {}, {}, {}

local function quarantined(reservation_id)
  return tostring(tonumber(redis.pcall('HEXISTS', keys.quarantine(tag), reservation_id)) or 0)
end

local function put(list, ...)
  list.count = (list.count or 0) + 1
  lists.append_all(list, { ... })
end

local function budgets_of(hold)
  local budgets = {}
  for i, scope in ipairs(hold.subject.held) do
    budgets[i] = hold.unit .. ' ' .. scope
  end
  return budgets
end

local function add(budget, amount)
  local sum = sums[budget] or { count = 0, amount = '0' }
  sum.count, sum.amount = sum.count + 1, int64.saturating_add(sum.amount, amount)
  sums[budget] = sum
end

-- Returns when a hold ended, or '' while it is live; nil if it ended before the window or its end is not recorded.
local function end_within(reservation_id, key, hold)
  if hold.state == 'ACTIVE' then
    return ''
  end
  local ended = hold.fields and hold.fields[field.ended_at] or redis.call('HGET', key, field.ended_at)
  ended = hold_record.whole_number(ended)
  if ended and ended > now then
    has_stepped = true
    return nil
  end
  if ended and ended > passed_ms then
    put(ended_later, reservation_id, time.ms_text(ended))
  end
  return ended and ended >= first_ms and time.ms_text(ended) or nil
end

local function count_in(reservation_id, hold, ended)
  local budgets = budgets_of(hold)
  local born = hold.created_at
  if born > now then
    has_stepped, born = true, 0
  end
  if born < first_ms and ended == '' then
    for _, budget in ipairs(budgets) do
      add(budget, hold.amount)
    end
  else
    put(moving, reservation_id, time.ms_text(born), ended, hold.amount, tostring(#budgets), unpack(budgets))
  end
  for _, budget in ipairs(budgets) do
    if ended == '' and wanted[budget] then
      put(named, reservation_id, hold.amount, quarantined(reservation_id), budget)
    end
  end
end

local function examine_entry(reservation_id)
  local key = keys.reservation(tag, reservation_id)
  local readable, hold = pcall(hold_record.load_hold, key, field.created_at)
  if not readable then
    put(unreadable, reservation_id, 'NOT_A_RECORD', quarantined(reservation_id))
    return
  end
  local ended = hold and end_within(reservation_id, key, hold)
  if not ended then
    return
  end
  hold.created_at = hold_record.whole_number(hold[field.created_at])
  local defect = hold_record.hold_defect(hold) or not hold.created_at and 'INVALID_CREATION'
  if defect then
    put(unreadable, reservation_id, defect, quarantined(reservation_id))
  else
    count_in(reservation_id, hold, ended)
  end
end

local entries = index_walk.index_stretch(index, false, '-inf', '+inf', walked_ms, walked_id, examine)
for i = 1, #entries, 2 do
  walked_id, walked_ms = entries[i], entries[i + 1]
  examine_entry(walked_id)
end
local ended_here = #entries < 2 * examine
local summed = {}
for budget, sum in pairs(sums) do
  put(summed, budget, tostring(sum.count), sum.amount)
end
local reply = { ended_here and '' or walked_ms, walked_id, has_stepped and '1' or '0' }
for _, list in ipairs({ summed, moving, unreadable, named, ended_later }) do
  reply[#reply + 1] = tostring(list.count or 0)
  lists.append_all(reply, list)
end
return reply
