#!lua flags=no-writes
-- read_budgets: some budgets of a partition by their names, without free-text fields.
--
-- KEYS[1]   tenant_index     sorted set of the partition's tenants
-- ARGV[...] budgets, each as 'scope unit'
-- RETURNS   now_ms read:int records(text_count record{})*
-- BOUND     100 budgets, or 256 KiB of them
-- EMITS     nothing
-- @include  keys: tag_of_key, budget_key
-- @include  now_ms: now_ms, ms_text
-- @include  listing: RUN_BYTES
-- @include  listed_budget: append_budget
--
-- The reply covers the first `read` of the names, at least one. One that no budget has any more has no record.
local MOST = 100
local tag, now = tag_of_key(KEYS[1]), now_ms()
local reply, bytes = { ms_text(now), '' }, 0
for i = 1, math.min(#ARGV, MOST) do
  local scope, unit = string.match(ARGV[i], '^(%S+) (%S+)$')
  if redis.call('EXISTS', budget_key(tag, unit, scope)) == 1 then
    bytes = bytes + append_budget(reply, tag, scope, unit, now)
  end
  reply[2] = tostring(i)
  if bytes >= RUN_BYTES then
    break
  end
end
return reply
