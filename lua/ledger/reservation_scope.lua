#!lua flags=no-writes
-- reservation_scope: the scope that a reservation was made for, whichever form its record has.
--
-- KEYS[1]   reservation      hash
-- RETURNS   SCOPE scope_path | UNKNOWN | NOT_FOUND
-- BOUND     one record, without its free texts where they are long
-- EMITS     nothing
-- @include  hold: load_hold
--
-- UNKNOWN is a record that does not tell its tenant, or is none.
local reservation = KEYS[1]

local readable, hold = pcall(load_hold, reservation)
if not readable then
  return { 'UNKNOWN' }
elseif not hold then
  return { 'NOT_FOUND' }
end
local scopes = hold.scopes
return scopes and { 'SCOPE', scopes[#scopes] } or { 'UNKNOWN' }
