#!lua flags=no-writes
-- inspect_quarantined: a reservation in quarantine, and what an operator's release would return to the budgets.
--
-- KEYS[1]   reservation      hash
-- ARGV[1]   reservation_id
-- RETURNS   QUARANTINED entry defect? amount? unit? returned_count returned_scopes* kept_count kept(scope reason)*
--           record{}
--           | NOT_FOUND
-- BOUND     one reservation, at the scopes of its subject (at most 6)
-- EMITS     nothing
-- @include  hold_form, hold_record, keys, returnable
--
-- entry is the reason and the time of the quarantine. defect is why the record cannot be settled now, or empty if it
-- has been repaired since. The fields are the record as stored.
local reservation = KEYS[1]
local reservation_id = ARGV[1]

local tag = keys.tag_of(reservation)
local entry = redis.call('HGET', keys.quarantine(tag), reservation_id)
if not entry then
  return { 'NOT_FOUND' }
end
local readable, hold = pcall(hold_record.load_hold, reservation)
if not readable or not hold then
  return { 'QUARANTINED', entry, readable and 'NOT_FOUND' or 'NOT_A_RECORD', '', '', '0', '0' }
end
local refunded, kept = returnable.returnable_budgets(tag, hold)
local reply = returnable.append_returnable({ 'QUARANTINED', entry, hold_record.hold_defect(hold) or '' }, hold,
  refunded, kept)
for name, value in pairs(hold_form.record_fields(reservation)) do
  reply[#reply + 1] = name
  reply[#reply + 1] = value
end
return reply
