#!lua flags=no-writes
-- verify_budgets: the figures of a tenant's budgets at one instant, in bounded pages.
--
-- KEYS[1]   budget_index   sorted set of the tenant's 'scope unit'
-- ARGV[1]   after          the 'scope unit' at which the previous run ended, or empty
-- ARGV[2]   limit          budgets per run, at least 1
-- RETURNS   now_ms next? budgets(budget remaining? reserved? spent? allocated? debt? status?)*
-- BOUND     limit budgets
-- EMITS     nothing
-- @include  keys: tag_of_key, budget_key
-- @include  now_ms: now_ms, ms_text
--
-- A budget is named by its 'scope unit'. next is empty at the end.
-- A missing figure is empty: a verification must report damage, not fail on it.
local budget_index = KEYS[1]
local after, limit = ARGV[1], tonumber(ARGV[2])

local tag = tag_of_key(budget_index)

local reply = { ms_text(now_ms()), '' }
local members = redis.call('ZRANGEBYLEX', budget_index, after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, limit)
for _, member in ipairs(members) do
  local scope, unit = string.match(member, '^(%S+) (%S+)$')
  reply[#reply + 1] = member
  local figures = redis.call('HMGET', budget_key(tag, unit, scope), 'remaining', 'reserved', 'spent', 'allocated', 'debt', 'status')
  for i = 1, 6 do
    reply[#reply + 1] = figures[i] or ''
  end
end
if #members == limit then
  reply[2] = members[limit]
end
return reply
