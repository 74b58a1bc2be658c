#!lua flags=allow-oom
-- get_reservation: one reservation's record. An overdue one is expired first, so that no reader sees a dead hold alive.
--
-- KEYS[1]   reservation      hash
-- ARGV[1]   tenant_id        effective tenant, or empty for an operator
-- ARGV[2]   reservation_id
-- ARGV[3]   retention_ms     how long the ended record stays for the audit trail
-- ARGV[4]   request_id
-- ARGV[5]   trace            trace id and flags
-- RETURNS   FOUND (field value)* | NOT_FOUND | FORBIDDEN | RESERVATION_EXPIRED | QUARANTINED reason
-- BOUND     one reservation, at the scopes of its subject (at most 6)
-- EMITS     those of the expiry transition
-- @include  keys, now_ms, hold, record, expiry
local reservation = KEYS[1]
local tenant_id, reservation_id, retention_ms = ARGV[1], ARGV[2], ARGV[3]
local origin = { actor = 'system', request = ARGV[4], trace = ARGV[5] }

local now = now_ms()
local hold = load_hold(reservation)
if not hold then
  return { 'NOT_FOUND' }
end
if tenant_id ~= '' and hold.tenant ~= tenant_id then
  return { 'FORBIDDEN' }
end
if hold.state == 'EXPIRED' then
  return { 'RESERVATION_EXPIRED' }
end
if is_overdue(hold, now) then
  local outcome = expire_hold(tag_of_key(reservation), reservation_id, hold, now, retention_ms, origin)
  if outcome[1] == 'QUARANTINED' then
    return outcome
  end
  return { 'RESERVATION_EXPIRED', 'now', outcome[2], outcome[3], ms_text(now) }
end
local defect = hold_defect(hold)
if defect then
  error('corrupt reservation record ' .. hold.key .. ': ' .. defect)
end
local reply = { 'FOUND' }
for name, value in pairs(record_fields(reservation)) do
  reply[#reply + 1] = name
  reply[#reply + 1] = value
end
return reply
