#!lua flags=no-writes
-- list_budgets_by_scope: a tenant's budgets in the order of their scopes, without free-text fields, in bounded pages.
--
-- KEYS[1]   budget_index     sorted set of the tenant's budgets
-- ARGV[1]   direction        asc or desc, for scopes and for the units of a scope alike
-- ARGV[2]   after            the run starts after this text, which need not be a member of the index; empty for the
--           first run
-- ARGV[3]   limit            records per run, at least 1
-- RETURNS   now_ms next_member? budgets*
-- BOUND     limit records or 256 KiB of them, without free-text fields
-- EMITS     nothing
-- @include  keys, listed_budget, listing, time
--
-- The next run starts after next_member, which is empty at the end. The index has each scope before those below it:
-- see lua/lib/scope_tree.lua.
local budget_index = KEYS[1]
local direction, after, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])

local tag, now = keys.tag_of(budget_index), time.now_ms()
local walk = direction == 'desc' and listing.members_before_name or listing.members_after_name

local reply, bytes = { time.ms_text(now), '' }, 0
for number, member in ipairs(listing.members_or_index(walk, budget_index, after, limit)) do
  bytes = bytes + listed_budget.append_budget(reply, tag, member, now)
  if number == limit or bytes >= listing.RUN_BYTES then
    reply[2] = member
    break
  end
end
return reply
