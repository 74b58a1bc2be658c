#!lua flags=no-writes
-- read_budgets: some budgets of a partition by their names, without free-text fields.
--
-- KEYS[1]   tenant_index     sorted set of the partition's tenants
-- ARGV[...] budgets, each as 'scope unit'
-- RETURNS   now_ms read:int budgets*
-- BOUND     100 budgets, or 256 KiB of them
-- EMITS     nothing
-- @include  keys, listed_budget, listing, time
--
-- The reply covers the first `read` of the names, at least one. One that no budget has any more has no record.
local MOST = 100
local tag, now = keys.tag_of(KEYS[1]), time.now_ms()
local reply, bytes = { time.ms_text(now), '' }, 0
for i = 1, math.min(#ARGV, MOST) do
  local scope, unit = string.match(ARGV[i], '^(%S+) (%S+)$')
  if redis.call('EXISTS', keys.budget(tag, unit, scope)) == 1 then
    bytes = bytes + listed_budget.append_budget(reply, tag, ARGV[i], now)
  end
  reply[2] = tostring(i)
  if bytes >= listing.RUN_BYTES then
    break
  end
end
return reply
