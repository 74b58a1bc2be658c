#!lua flags=no-writes
-- list_holds: the live holds of a budget in the order of their reclaim deadlines, in bounded pages of an index of
-- deadlines.
--
-- KEYS[1]   deadline_index  zset, score = reclaim deadline in ms: the TTL index, or that of holds that only a cleanup
--           ends
-- ARGV[1]   tenant_id       the owner of the budget
-- ARGV[2]   scope
-- ARGV[3]   unit
-- ARGV[4]   tenants         those of the operator: see lib/confinement
-- ARGV[5]   walked_ms       where the previous run ended: the deadline, or empty to start
-- ARGV[6]   walked_id       its reservation
-- ARGV[7]   examine         maximum entries to examine
-- ARGV[8]   limit           maximum holds to return
-- RETURNS   walked_ms:text? walked_id? examined:int visible:int damaged_count damaged(reservation_id)*
--             holds(reservation_id amount expires_at_ms:int deadline_ms:int charge_on_expiry?)*
-- BOUND     examine entries, limit holds
-- EMITS     nothing
-- @include  confinement, field, hold_record, index_walk, int64, keys, lists, time
--
-- walked_ms is empty at the end of the index, which other tenants share. A hold whose deadline has passed is listed
-- until it is expired, because its budgets still hold the amount. Damaged records that may be holds of the budget are
-- only named, and so is an index of another type. visible is examined, or for operators that are confined to
-- tenants the entries of this one.
local index = KEYS[1]
local tenant_id, scope, unit, tenants, walked_ms, walked_id = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local examine, limit = tonumber(ARGV[7]), tonumber(ARGV[8])

local tag = keys.tag_of(index)
local owner = tenant_id .. '\31'
local sees_all = confinement.may_act_for(tenants, nil)

local function holds_budget(subject)
  if subject.defect then
    return subject.tenant == tenant_id or not subject.tenant and sees_all
  end
  if subject.tenant ~= tenant_id or subject.unit ~= unit then
    return false
  end
  for _, held in ipairs(subject.held) do
    if held == scope then
      return true
    end
  end
  return false
end

-- Whether the operator may know of an entry, the amount of a live hold of the budget, the end of its lease, and what it
-- costs if it expires, or empty; nil for anything else. `true` instead of an amount if the record is damaged and may be
-- such a hold.
local function live_hold(reservation_id)
  local key = keys.reservation(tag, reservation_id)
  local record = redis.pcall('HMGET', key, field.state, field.subject, field.amount, field.expires_at,
    field.charge_on_expiry)
  if record.err then
    return sees_all, sees_all or nil
  end
  if record[1] ~= 'ACTIVE' then
    return sees_all
  end
  local text, amount, expires_at = record[2], record[3], record[4]
  if text and string.sub(text, 1, #owner) ~= owner then
    return sees_all
  end
  local hold = text
    and { subject = hold_record.known_subject(text), amount = amount,
    expires_at = hold_record.whole_number(expires_at) } or hold_record.load_hold(key)
  if not holds_budget(hold.subject) then
    return sees_all or hold.subject.tenant == tenant_id
  end
  return true, hold.subject.defect == nil and int64.is_amount(hold.amount) and hold.expires_at and hold.amount
    or true, hold.expires_at,
    int64.is_amount(record[5]) and record[5] or ''
end

local is_index, entries = pcall(index_walk.index_stretch, index, false, '-inf', '+inf', walked_ms, walked_id, examine)
if not is_index then
  return { '', '', '0', '0', '1', index }
end
local holds, damaged, examined, visible, found = {}, {}, 0, 0, 0
while examined < #entries / 2 and found < limit do
  walked_id, walked_ms = entries[2 * examined + 1], entries[2 * examined + 2]
  examined = examined + 1
  local is_visible, amount, expires_at, charge = live_hold(walked_id)
  visible = visible + (is_visible and 1 or 0)
  if amount == true then
    damaged[#damaged + 1] = walked_id
  elseif amount then
    found = found + 1
    local last = #holds
    holds[last + 1], holds[last + 2], holds[last + 3], holds[last + 4] =
      walked_id, amount, time.ms_text(expires_at), walked_ms
    holds[last + 5] = charge
  end
end
local ended_here = examined == #entries / 2 and examined < examine
local reply = { ended_here and '' or walked_ms, walked_id, tostring(examined), tostring(visible), tostring(#damaged) }
lists.append_all(reply, damaged)
return lists.append_all(reply, holds)
