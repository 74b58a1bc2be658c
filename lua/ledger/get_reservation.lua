#!lua flags=allow-oom
-- get_reservation: one reservation's record. An overdue hold is expired first, so that it is never returned as live.
--
-- KEYS[1]   reservation      hash
-- ARGV[1]   tenant_id        effective tenant, or empty for an operator
-- ARGV[2]   reservation_id
-- ARGV[3]   retention_ms     how long the ended record is kept for the audit view
-- ARGV[4]   request_id
-- ARGV[5]   trace            trace id and flags
-- RETURNS   FOUND defect? quarantined? record{} | NOT_FOUND [defect] | FORBIDDEN
--           | RESERVATION_EXPIRED [on_access:now|charged tenant deadline_ms now_ms]
-- BOUND     one reservation, at the scopes of its subject (at most 6); 1,000 tenants if a damaged record does not name
--           its own
-- EMITS     those of the expiry transition
-- @include  damage, expiry, field, hold_form, hold_record, keys, time
--
-- defect is what is wrong with the record, or empty. If it is set, the fields are what is known of the record.
-- quarantined is the reason if this read has put the reservation into quarantine, which happens once.
local reservation = KEYS[1]
local tenant_id, reservation_id, retention_ms = ARGV[1], ARGV[2], ARGV[3]
local origin = { actor = 'system', request = ARGV[4], trace = ARGV[5] }

local tag = keys.tag_of(reservation)
local now = time.now_ms()
local readable, hold = pcall(hold_record.load_hold, reservation)
if not readable or not hold then
  return { 'NOT_FOUND', not readable and 'NOT_A_RECORD' or nil }
end
local foreign = tenant_id ~= '' and hold.tenant ~= tenant_id
if foreign and not damage.creation_in_index(tag, tenant_id, reservation_id) then
  return { 'FORBIDDEN' }
end
if damage.known_state(reservation, hold.state) == 'EXPIRED' then
  return { 'RESERVATION_EXPIRED' }
end
local fields = hold_form.record_fields(reservation)
local defect = foreign and 'MISSING_SCOPES' or damage.record_defect(hold, fields)
local outcome = {}
if not defect and hold_record.is_overdue(hold, now) then
  outcome = expiry.expire_hold(tag, reservation_id, hold, now, retention_ms, origin)
  if outcome[1] ~= 'QUARANTINED' then
    return { 'RESERVATION_EXPIRED', outcome.charge and 'charged' or 'now', outcome[2], outcome[3], time.ms_text(now) }
  end
end
if defect then
  local tenant, created_at = damage.owner_of(tag, reservation_id, tenant_id ~= '' and tenant_id or hold.tenant)
  fields = damage.known_fields(reservation, fields, tenant, created_at)
  if fields[field.state] == 'ACTIVE' and (foreign or hold_record.hold_defect(hold)) then
    outcome = expiry.quarantine(tag, reservation_id, reservation, defect, origin, tenant, true)
  end
end
local reply = { 'FOUND', defect or '', outcome[1] == 'QUARANTINED' and not outcome[4] and outcome[2] or '' }
for name, value in pairs(fields) do
  reply[#reply + 1] = name
  reply[#reply + 1] = value
end
return reply
