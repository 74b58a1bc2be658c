#!lua flags=no-writes
-- list_live_holds: the live holds of a partition in the order of their reclaim deadlines, in bounded pages.
--
-- KEYS[1]   ttl_index     zset, score = reclaim deadline in ms
-- ARGV[1]   tenant_id     only this tenant's, or empty
-- ARGV[2]   tenants       those of the operator: see lib/confinement
-- ARGV[3]   to_ms         the last deadline to list, or +inf
-- ARGV[4]   walked_ms     where the previous run ended: the deadline, or empty to start
-- ARGV[5]   walked_id     its reservation
-- ARGV[6]   examine       maximum entries to examine
-- RETURNS   walked_ms:text? walked_id? examined:int visible:int damaged_count damaged(reservation_id)*
--             holds(reservation_id tenant_id scope unit amount created_at_ms:int expires_at_ms:int deadline_ms:int)*
-- BOUND     examine entries
-- EMITS     nothing
-- @include  confinement, field, hold_record, index_walk, int64, keys, lists, time
--
-- walked_ms is empty at the end of the index. visible counts the entries of the operator's tenants. A hold
-- whose deadline has passed is listed until it is expired. Damaged records are only named, and so is an index of
-- another type.
local index = KEYS[1]
local tenant_id, tenants, to_ms = ARGV[1], ARGV[2], ARGV[3]
local walked_ms, walked_id, examine = ARGV[4], ARGV[5], tonumber(ARGV[6])

local tag = keys.tag_of(index)

-- Whether the operator may know of an entry, and the members of its hold in the reply but for its id and deadline; nil
-- if it is not live, or of another tenant; `true` if the record is damaged, for operators of the whole deployment even
-- where its tenant cannot be read.
local function live_hold(reservation_id)
  local key = keys.reservation(tag, reservation_id)
  local record = redis.pcall('HMGET', key, field.state, field.subject, field.amount, field.created_at, field.expires_at)
  if record.err then
    local is_visible = confinement.may_act_for(tenants, nil)
    return is_visible, is_visible or nil
  end
  if record[1] ~= 'ACTIVE' then
    return confinement.may_act_for(tenants, nil)
  end
  local subject = record[2] and hold_record.known_subject(record[2]) or hold_record.load_hold(key).subject
  local owner = subject.tenant
  local is_visible = confinement.may_act_for(tenants, owner)
  if owner and tenant_id ~= '' and owner ~= tenant_id or not is_visible then
    return is_visible
  end
  local created_at, expires_at = hold_record.whole_number(record[4]), hold_record.whole_number(record[5])
  if subject.defect or not subject.unit or not int64.is_amount(record[3]) or not created_at or not expires_at then
    return true, true
  end
  return true, { subject.tenant, subject.scopes[#subject.scopes], subject.unit, record[3], time.ms_text(created_at),
    time.ms_text(expires_at) }
end

local is_index, entries = pcall(index_walk.index_stretch, index, false, '-inf', to_ms, walked_ms, walked_id, examine)
if not is_index then
  return { '', '', '0', '0', '1', index }
end
local holds, damaged, examined, visible = {}, {}, #entries / 2, 0
for i = 1, #entries, 2 do
  walked_id, walked_ms = entries[i], entries[i + 1]
  local is_visible, hold = live_hold(walked_id)
  visible = visible + (is_visible and 1 or 0)
  if hold == true then
    damaged[#damaged + 1] = walked_id
  elseif hold then
    holds[#holds + 1] = walked_id
    lists.append_all(holds, hold)
    holds[#holds + 1] = walked_ms
  end
end
local reply = { examined < examine and '' or walked_ms, walked_id, tostring(examined), tostring(visible),
  tostring(#damaged) }
lists.append_all(reply, damaged)
return lists.append_all(reply, holds)
