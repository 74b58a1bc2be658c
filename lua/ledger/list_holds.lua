#!lua flags=no-writes
-- list_holds: the live holds of a budget in the order of their reclaim deadlines, in bounded pages of an index of deadlines.
--
-- KEYS[1]   deadline_index  zset, score = reclaim deadline in ms: the TTL index, or that of holds that only a cleanup ends
-- ARGV[1]   tenant_id       the owner of the budget
-- ARGV[2]   scope
-- ARGV[3]   unit
-- ARGV[4]   walked_ms       where the previous run ended: the deadline, or empty to start
-- ARGV[5]   walked_id       its reservation
-- ARGV[6]   examine         maximum entries to examine
-- ARGV[7]   limit           maximum holds to return
-- RETURNS   walked_ms:text? walked_id? examined:int holds(reservation_id amount expires_at_ms:int deadline_ms:int)*
-- BOUND     examine entries, limit holds
-- EMITS     nothing
-- @include  field, hold_record, index_walk, int64, keys, time
--
-- walked_ms is empty at the end of the index, which other tenants share. A hold whose deadline has passed is listed until
-- it is expired, because its budgets still hold the amount. Damaged records are left out.
local index = KEYS[1]
local tenant_id, scope, unit, walked_ms, walked_id = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local examine, limit = tonumber(ARGV[6]), tonumber(ARGV[7])

local tag = keys.tag_of(index)
local owner = tenant_id .. '\31'

local function holds_budget(subject)
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

-- The amount of a live hold of the budget and the end of its lease, or nil.
local function live_hold(reservation_id)
  local key = keys.reservation(tag, reservation_id)
  local record = redis.pcall('HMGET', key, field.state, field.subject, field.amount, field.expires_at)
  if record.err or record[1] ~= 'ACTIVE' then
    return nil
  end
  local text, amount, expires_at = record[2], record[3], record[4]
  if text and string.sub(text, 1, #owner) ~= owner then
    return nil
  end
  local hold = text and { subject = hold_record.known_subject(text), amount = amount, expires_at = hold_record.whole_number(expires_at) } or hold_record.load_hold(key)
  if holds_budget(hold.subject) and int64.is_amount(hold.amount) and hold.expires_at then
    return hold.amount, hold.expires_at
  end
end

local entries = index_walk.index_stretch(index, false, '-inf', '+inf', walked_ms, walked_id, examine)
local reply, examined, found = { '', '', '' }, 0, 0
while examined < #entries / 2 and found < limit do
  walked_id, walked_ms = entries[2 * examined + 1], entries[2 * examined + 2]
  examined = examined + 1
  local amount, expires_at = live_hold(walked_id)
  if amount then
    found = found + 1
    local last = #reply
    reply[last + 1], reply[last + 2], reply[last + 3], reply[last + 4] = walked_id, amount, time.ms_text(expires_at), walked_ms
  end
end
local ended_here = examined == #entries / 2 and examined < examine
reply[1], reply[2], reply[3] = ended_here and '' or walked_ms, walked_id, tostring(examined)
return reply
