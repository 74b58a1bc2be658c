#!lua flags=no-writes
-- debit_scope: the scope that a direct debit was charged to.
--
-- KEYS[1]   event_log        stream
-- ARGV[1]   event_id         of the debit
-- RETURNS   SCOPE scope_path | NOT_FOUND
-- BOUND     2,000 events
-- EMITS     nothing
-- @include  debit_record, keys
local event_log, event_id = KEYS[1], ARGV[1]

local debit = debit_record.find(keys.tag_of(event_log), event_id)
if not debit then
  return { 'NOT_FOUND' }
end
return { 'SCOPE', debit.subject.scopes[#debit.subject.scopes] }
