#!lua flags=no-writes
-- list_operators: the named operators in the order of their names, in bounded pages.
--
-- KEYS[1]   operator_index   sorted set of all operators' names, all scores 0
-- ARGV[1]   after            the name at which the previous run ended, or empty
-- ARGV[2]   limit            records per run, at least 1
-- RETURNS   now_ms next_member? records(text_count record{})*
-- BOUND     limit records of about a kilobyte
-- EMITS     nothing
-- @include  keys, listing, time
--
-- The next run starts after next_member, which is empty at the end.
local operator_index = KEYS[1]
local after, limit = ARGV[1], tonumber(ARGV[2])

local tag = keys.tag_of(operator_index)
local names = listing.members_after_name(operator_index, after, limit)
local reply = { time.ms_text(time.now_ms()), #names == limit and names[limit] or '' }
for _, name in ipairs(names) do
  listing.append_record(reply, keys.operator(tag, name), 'operator', { 'name', name })
end
return reply
