#!lua flags=no-writes
-- inspect_quarantined: a reservation in quarantine, and what an operator's release would return to the budgets.
--
-- KEYS[1]   reservation      hash
-- ARGV[1]   reservation_id
-- RETURNS   QUARANTINED entry defect? amount? unit? returned_count returned_scopes* kept_count kept(scope reason)* record{}
--           | NOT_FOUND
-- BOUND     one reservation, at the scopes of its subject (at most 6)
-- EMITS     nothing
-- @include  keys: tag_of_key, quarantine_key
-- @include  hold: load_hold, hold_defect
-- @include  record: record_fields
-- @include  returnable_budgets: returnable_budgets, append_returnable
--
-- entry is the reason and the time of the quarantine. defect is why the record cannot be settled now, or empty if it has been
-- repaired since. The fields are the record as stored.
local reservation = KEYS[1]
local reservation_id = ARGV[1]

local tag = tag_of_key(reservation)
local entry = redis.call('HGET', quarantine_key(tag), reservation_id)
if not entry then
  return { 'NOT_FOUND' }
end
local readable, hold = pcall(load_hold, reservation)
if not readable or not hold then
  return { 'QUARANTINED', entry, readable and 'NOT_FOUND' or 'NOT_A_RECORD', '', '', '0', '0' }
end
local refunded, kept = returnable_budgets(tag, hold)
local reply = append_returnable({ 'QUARANTINED', entry, hold_defect(hold) or '' }, hold, refunded, kept)
for name, value in pairs(record_fields(reservation)) do
  reply[#reply + 1] = name
  reply[#reply + 1] = value
end
return reply
