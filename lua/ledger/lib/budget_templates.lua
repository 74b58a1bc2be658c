-- budget_templates: the budgets that a tenant's templates make, at the scopes of a request that have none in its unit.
-- @include kept, keys, owned_counts, template_record
--
-- The last segments of a pattern may have `*` in place of a value. A pattern matches the scopes that have the same
-- levels, so a scope of n levels matches n patterns at most. The one with the most literal segments wins, and of
-- several templates with that pattern the oldest.
--
-- A request that is granted makes the budgets that it misses. One that is refused, a dry run and a decision answer as
-- if it had, and make nothing.

-- Which template each scope has, as found by earlier runs: by scope, then by unit, with false for none. INVARIANT: a
-- run uses what has the revision in the tenant's record. Each change of the tenant's templates writes another one,
-- which no other change ever has.
-- Without them, a scope that has no budget on purpose costs each reserve a look at its patterns.
local SCOPES_KEPT = 1000
local known_scope = kept(SCOPES_KEPT, function() return {} end)

-- The patterns that match a scope, with its unit, as the index has them: the most literal first.
local function patterns_of(unit, scope)
  local segments, open, patterns = {}, {}, {}
  for segment, level in string.gmatch(scope, '(([^/:]+):[^/]+)') do
    segments[#segments + 1], open[#open + 1] = segment, level .. ':*'
  end
  for literal = #segments, 1, -1 do
    local parts = {}
    for i = 1, #segments do
      parts[i] = i <= literal and segments[i] or open[i]
    end
    patterns[#patterns + 1] = unit .. ' ' .. table.concat(parts, '/')
  end
  return patterns
end

local function find_template(tag, tenant_id, unit, scope)
  local found = redis.call('HMGET', keys.budget_template_pattern(tag, tenant_id), unpack(patterns_of(unit, scope)))
  for i = 1, #found do
    if found[i] then
      return string.match(found[i], '^%S+')
    end
  end
  return false
end

-- The id of the template for a scope, or false.
local function template_at(tag, tenant_id, revision, unit, scope)
  local known = known_scope(scope)
  if known.revision ~= revision then
    known.revision, known.by_unit = revision, {}
  end
  if known.by_unit[unit] == nil then
    known.by_unit[unit] = find_template(tag, tenant_id, unit, scope)
  end
  return known.by_unit[unit]
end

-- What a template would make at a scope, as lua/lib/budget_birth.lua takes it, or nil. `revision` is that of the
-- tenant's record.
local function birth_at(tag, tenant_id, revision, unit, scope, now)
  local template_id = template_at(tag, tenant_id, revision, unit, scope)
  return template_id and template_record.birth_of(tag, tenant_id, template_id, unit, scope, now) or nil
end

-- The refusal if the tenant may not own the `unborn` budgets, if any, as well.
local function limit_refusal(group, tag, tenant_id, unborn, max_budgets)
  return unborn
    and owned_counts.count_refusal(tag, tenant_id, 'budgets', max_budgets, keys.budget_index(tag, tenant_id), #unborn,
    group.rehearsed_births)
end

return { birth_at = birth_at, limit_refusal = limit_refusal }
