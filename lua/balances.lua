#!lua flags=no-writes
-- balances: the budgets of one tenant that match a subject, at one instant, a page at a time.
--
-- KEYS[1]   budget_index     sorted set of the tenant's 'scope unit', all scores 0, so a scope stands before those below it
-- ARGV[1]   after            the 'scope unit' that ended the page before, or empty
-- ARGV[2]   limit            budgets a page
-- ARGV[3]   include_children 1 adds the budgets below the matching scopes
-- ARGV[4]   deepest          the deepest segment asked for, the one a matching scope ends with
-- ARGV[...] the other segments asked for, each of which a matching scope holds
-- RETURNS   next (scope unit balance)*, next being where the following page starts after, or empty
-- BOUND     the budgets of one tenant
-- EMITS     nothing
-- @include  keys, budget
--
-- Segments match whole: agent:bot does not find agent:bot2.
local budget_index = KEYS[1]
local after, limit, include_children, deepest = ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1', ARGV[4]
local first_segment, PAGE = 5, 200

local tag = tag_of_key(budget_index)

local function matches(scope)
  local framed = '/' .. scope .. '/'
  local ends = string.find(framed, '/' .. deepest .. '/', 1, true)
  if not ends or (not include_children and ends + #deepest + 1 ~= #framed) then
    return false
  end
  for i = first_segment, #ARGV do
    if not string.find(framed, '/' .. ARGV[i] .. '/', 1, true) then
      return false
    end
  end
  return true
end

local reply, found, last = { '' }, 0, after
while true do
  local from = last == '' and '-' or '(' .. last
  local members = redis.call('ZRANGEBYLEX', budget_index, from, '+', 'LIMIT', 0, PAGE)
  for _, member in ipairs(members) do
    local scope, unit = string.match(member, '^(%S+) (%S+)$')
    if matches(scope) then
      if found == limit then
        reply[1] = last
        return reply
      end
      local budget = read_budget(tag, unit, scope)
      if not budget then
        error('the budget index names a budget that is gone: ' .. member)
      end
      found = found + 1
      reply[#reply + 1] = scope
      reply[#reply + 1] = unit
      reply[#reply + 1] = balance_text(budget)
    end
    last = member
  end
  if #members < PAGE then
    return reply
  end
end
