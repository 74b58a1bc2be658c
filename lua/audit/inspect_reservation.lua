#!lua flags=allow-oom
-- inspect_reservation: everything known about one reservation in any state, for operators. An overdue one is expired
-- first.
--
-- KEYS[1]   reservation      hash
-- ARGV[1]   reservation_id
-- ARGV[2]   retention_ms     how long the ended record is kept for the audit view
-- ARGV[3]   request_id
-- ARGV[4]   trace            trace id and flags
-- RETURNS   FOUND now_ms goes_at_ms? quarantine? defect? word? detail? second_detail? text_count end_event{} record{}
--           | NOT_FOUND
-- BOUND     one reservation, at the scopes of its subject (at most 6); 1,000 tenants if a damaged record does not name
--           its own
-- EMITS     those of the expiry transition
-- @include  damage, expiry, field, hold_form, hold_record, keys, lists, time
--
-- now_ms is the time of the reservation's tenant. goes_at_ms is when the record will be deleted, quarantine is its
-- entry in the quarantine, defect is what is wrong with the record, and word and details are the outcome of an expiry
-- in this run. Each is empty if it does not apply. The text_count texts of end_event are the event that reported the
-- end, as lua/lib/event_writer.lua names them. A damaged record is returned as it is.
local reservation = KEYS[1]
local reservation_id, retention_ms = ARGV[1], ARGV[2]
local origin = { actor = 'system', request = ARGV[3], trace = ARGV[4] }

local tag = keys.tag_of(reservation)
local now = time.now_ms()
local outcome = {}

local readable, hold = pcall(hold_record.load_hold, reservation)
if readable and not hold then
  return { 'NOT_FOUND' }
end
local fields = readable and hold_form.record_fields(reservation) or {}
local defect = not readable and 'NOT_A_RECORD' or damage.record_defect(hold, fields)
-- Quarantined reservations wait for an operator.
if readable and redis.call('HEXISTS', keys.quarantine(tag), reservation_id) == 0 then
  if hold_record.hold_defect(hold) and damage.known_state(reservation, hold.state) == 'ACTIVE' then
    outcome = expiry.quarantine(tag, reservation_id, reservation, defect, origin,
      damage.owner_of(tag, reservation_id, hold.tenant), true)
  elseif hold_record.is_overdue(hold, now) then
    outcome = expiry.expire_hold(tag, reservation_id, hold, now, retention_ms, origin)
  end
  if outcome[1] then
    fields = hold_form.record_fields(reservation)
  end
end

local goes_at = redis.call('PEXPIRETIME', reservation)
local reply = { 'FOUND', time.ms_text(now), goes_at > 0 and time.ms_text(goes_at) or '',
  redis.call('HGET', keys.quarantine(tag), reservation_id) or '',
  defect or '', outcome[1] or '', outcome[2] or '', outcome[3] or '' }
local end_event = fields[field.end_event] or ''
local event = string.find(end_event, '^%d+%-%d+$')
  and redis.pcall('XRANGE', keys.event_log(tag), end_event, end_event)[1]
local event_fields = event and event[2] or {}
reply[#reply + 1] = tostring(#event_fields)
lists.append_all(reply, event_fields)
for name, value in pairs(fields) do
  reply[#reply + 1] = name
  reply[#reply + 1] = value
end
return reply
