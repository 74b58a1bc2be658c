#!lua flags=no-writes
-- balances: the budgets of one tenant that match a subject, in bounded pages of its budget index.
--
-- KEYS[1]   budget_index     sorted set of the tenant's budgets, as lib/scope_tree names them
-- ARGV[1]   after            the member at which the previous run ended, or empty
-- ARGV[2]   limit            maximum budgets to return
-- ARGV[3]   examine          maximum index entries to examine, at least 1
-- ARGV[4]   include_children 1 includes the budgets below the matching scopes
-- ARGV[5]   prefix           the requested segments that a matching scope starts with, joined by slashes
-- ARGV[6]   deepest          the deepest requested segment, the one that a matching scope ends with
-- ARGV[...] the other requested segments, each of which a matching scope contains
-- RETURNS   next? damaged_count damaged(scope unit)* budgets(scope unit balance)*
-- BOUND     examine entries, limit budgets
-- EMITS     nothing
-- @include  budget_figures, index_walk, keys, period, scope_tree, time
--
-- A budget that cannot be read is left out of budgets, and is in damaged. A member of the index that names no budget is
-- in neither.
-- next is where the following run starts, and empty at the end.
-- Segments match as a whole: agent:bot does not match agent:bot2. The figures of one budget are from one instant, those
-- of different runs from different ones. A budget whose period has ended has those of its new period.
local budget_index = KEYS[1]
local after, limit, examine, include_children = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'
local prefix, deepest = ARGV[5], ARGV[6]
local first_segment = 7

local tag = keys.tag_of(budget_index)
local now = time.now_ms()

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

local reply, damaged, found, examined, last = { '' }, {}, 0, 0, after

-- Nil if the budget is gone, and an error if it is damaged.
local function balance_of(scope, unit)
  local budget = budget_figures.read_budget(tag, unit, scope)
  local current = budget
    and period.state_now(budget.key, scope, budget.period_end, budget.status, now, budget.credits_text)
  return budget and budget_figures.balance_text(current or budget)
end

-- Examines the entries from `first` up to, but not including, `stop`.
local function walk(first, stop)
  local from = index_walk.bytes_less(last, first) and '[' .. first or '(' .. last
  local members = redis.call('ZRANGEBYLEX', budget_index, from, '(' .. stop, 'LIMIT', 0, examine - examined)
  for _, member in ipairs(members) do
    local scope, unit = scope_tree.budget_of_member(member)
    examined, last = examined + 1, member
    if scope and matches(scope) then
      local readable, balance = pcall(balance_of, scope, unit)
      if readable and balance then
        found = found + 1
        reply[#reply + 1] = scope
        reply[#reply + 1] = unit
        reply[#reply + 1] = balance
      else
        damaged[#damaged + 1] = scope
        damaged[#damaged + 1] = unit
      end
    end
    if found == limit or examined == examine then
      reply[1] = member
      break
    end
  end
end

-- The scope that the prefix names, in each of its units, and then the scopes below it. In byte order, '!' and '"'
-- follow a space.
local is_named = string.find('/' .. prefix .. '/', '/' .. deepest .. '/', 1, true)
local start = scope_tree.in_tree_order(prefix)
walk(start .. ' ', start .. ((include_children or not is_named) and '"' or '!'))
table.insert(reply, 2, tostring(#damaged / 2))
for i, text in ipairs(damaged) do
  table.insert(reply, 2 + i, text)
end
return reply
