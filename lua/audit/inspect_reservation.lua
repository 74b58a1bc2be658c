#!lua flags=allow-oom
-- inspect_reservation: everything known about one reservation in any state, for operators. An overdue one is expired first.
--
-- KEYS[1]   reservation      hash
-- ARGV[1]   reservation_id
-- ARGV[2]   retention_ms     how long the ended record is kept for the audit trail
-- ARGV[3]   request_id
-- ARGV[4]   trace            trace id and flags
-- RETURNS   FOUND now_ms goes_at_ms? quarantine? defect? word? detail? second_detail? text_count end_event{} record{} | NOT_FOUND
-- BOUND     one reservation, at the scopes of its subject (at most 6); 1,000 tenants if a damaged record does not name its own
-- EMITS     those of the expiry transition
-- @include  fields: FIELD
-- @include  keys: tag_of_key, quarantine_key, event_log_key
-- @include  now_ms: now_ms, ms_text
-- @include  hold: load_hold, hold_defect, is_overdue
-- @include  record: record_fields
-- @include  expiry: quarantine, expire_hold
-- @include  damage: owner_of, known_state, record_defect
--
-- now_ms is the time of the reservation's tenant. goes_at_ms is when the record will be deleted, quarantine is its entry in the
-- quarantine, defect is what is wrong with the record, and word and details are the outcome of an expiry in this run. Each is empty if it
-- does not apply. The text_count texts of end_event are the event that reported the end, as lua/lib/append_event.lua names them. A
-- damaged record is returned as it is.
local reservation = KEYS[1]
local reservation_id, retention_ms = ARGV[1], ARGV[2]
local origin = { actor = 'system', request = ARGV[3], trace = ARGV[4] }

local tag = tag_of_key(reservation)
local now = now_ms()
local outcome = {}

local readable, hold = pcall(load_hold, reservation)
if readable and not hold then
  return { 'NOT_FOUND' }
end
local fields = readable and record_fields(reservation) or {}
local defect = not readable and 'NOT_A_RECORD' or record_defect(hold, fields)
-- Quarantined reservations wait for an operator.
if readable and redis.call('HEXISTS', quarantine_key(tag), reservation_id) == 0 then
  if hold_defect(hold) and known_state(reservation, hold.state) == 'ACTIVE' then
    outcome = quarantine(tag, reservation_id, reservation, defect, origin, owner_of(tag, reservation_id, hold.tenant), true)
  elseif is_overdue(hold, now) then
    outcome = expire_hold(tag, reservation_id, hold, now, retention_ms, origin)
  end
  if outcome[1] then
    fields = record_fields(reservation)
  end
end

local goes_at = redis.call('PEXPIRETIME', reservation)
local reply = { 'FOUND', ms_text(readable and hold.clock_ms or now), goes_at > 0 and ms_text(goes_at) or '', redis.call('HGET', quarantine_key(tag), reservation_id) or '',
  defect or '', outcome[1] or '', outcome[2] or '', outcome[3] or '' }
local end_event = fields[FIELD.end_event] or ''
local event = string.find(end_event, '^%d+%-%d+$') and redis.pcall('XRANGE', event_log_key(tag), end_event, end_event)[1]
local event_fields = event and event[2] or {}
reply[#reply + 1] = tostring(#event_fields)
for _, text in ipairs(event_fields) do
  reply[#reply + 1] = text
end
for name, value in pairs(fields) do
  reply[#reply + 1] = name
  reply[#reply + 1] = value
end
return reply
