#!lua flags=no-writes
-- reservation_scope: the scope that a reservation was made for, in any form of its record.
--
-- KEYS[1]   reservation      hash
-- RETURNS   SCOPE scope_path | UNKNOWN | NOT_FOUND
-- BOUND     one record, without its free texts if they are long
-- EMITS     nothing
-- @include  hold_record
--
-- UNKNOWN: the record does not name its tenant, or the key is not a record.
local reservation = KEYS[1]

local readable, hold = pcall(hold_record.load_hold, reservation)
if not readable then
  return { 'UNKNOWN' }
elseif not hold then
  return { 'NOT_FOUND' }
end
local scopes = hold.scopes
return scopes and { 'SCOPE', scopes[#scopes] } or { 'UNKNOWN' }
