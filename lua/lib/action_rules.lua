-- action_rules: which kinds of actions the governing policy allows. The first steps of RESERVATION EVALUATION ORDER in
-- cycles-protocol-extensions-v0.1.26.
-- @include field, kept
--
-- A policy's record has four lists, each as JSON: allowed_action_kinds, denied_action_kinds, action_quotas and
-- risk_class_quotas. Its field `rules` has all of them again as one text, so that a reserve reads a single field, which
-- is unset if all four are empty.
local RULE_FIELDS = { 'denied_action_kinds', 'allowed_action_kinds', 'risk_class_quotas', 'action_quotas' }
-- JSON escapes it.
local BETWEEN_LISTS = '\30'

-- The field `rules` for a record, or nil if it has none.
local function rules_text(record)
  local lists = {}
  for i, name_of_field in ipairs(RULE_FIELDS) do
    lists[i] = record[name_of_field] or ''
  end
  return table.concat(lists) ~= '' and table.concat(lists, BETWEEN_LISTS) or nil
end

local function set_of(list, form)
  local set = {}
  for _, member in ipairs(list) do
    set[form and form(member) or member] = true
  end
  return next(set) and set
end

-- Texts that earlier runs have parsed. What follows from a text never changes, so it may outlive the run. A text has at
-- most 40 KB.
local RULES_KEPT = 100

local DEFAULT_RUN_TTL_MS, DEFAULT_THRESHOLD = 86400000, 0.8

-- The count at which a threshold is crossed: the least whose share of the limit is not below it.
local function crossing_of(limit, threshold)
  local count = math.max(math.ceil(threshold * limit), 1)
  -- The product may be a little off.
  while count > 1 and (count - 1) / limit >= threshold do
    count = count - 1
  end
  while count / limit < threshold do
    count = count + 1
  end
  return count
end

-- Quotas by the class or kind that they count, or nil if there are none.
local function quotas_by(member, quotas)
  local by = {}
  for _, quota in ipairs(quotas) do
    local rules = by[quota[member]] or {}
    by[quota[member]] = rules
    local threshold = quota.threshold_pct or DEFAULT_THRESHOLD
    rules[#rules + 1] = {
      kind = quota.action_kind, risk_class = quota.risk_class, limit = quota.max_calls, window = quota.window,
      ttl_ms = quota.per_run_counter_ttl_ms or DEFAULT_RUN_TTL_MS, crossing = crossing_of(quota.max_calls, threshold),
      threshold_text = string.format('%.14g', threshold),
      hosts = set_of(quota.host_allowlist or {}, string.lower),
      domains = set_of(quota.recipient_domain_allowlist or {}, string.lower),
      resources = set_of(quota.resource_type_allowlist or {}),
    }
  end
  return next(by) and by
end

-- `denied` and `allowed` as sets, the quotas as quotas_by returns them; nil for each that is empty.
local known_rules = kept(RULES_KEPT, function(text)
  local lists = {}
  for list in string.gmatch(text .. BETWEEN_LISTS, '([^' .. BETWEEN_LISTS .. ']*)' .. BETWEEN_LISTS) do
    lists[#lists + 1] = list == '' and {} or cjson.decode(list)
  end
  return { denied = set_of(lists[1]), allowed = set_of(lists[2]), risk_quotas = quotas_by('risk_class', lists[3]),
    kind_quotas = quotas_by('action_kind', lists[4]) }
end)

-- The action's kind among the field and value pairs of a request.
local function kind_of(fields, first)
  for i = first, #fields, 2 do
    if fields[i] == field.action_kind then
      return fields[i + 1]
    end
  end
  return nil
end

-- The refusal of an action that the policy does not permit, or nil: a status word, the scope and the policy's id.
-- `fields` has the action from `first` on.
local function action_refusal(policy, scopes, fields, first)
  local rules = policy and policy.rules and known_rules(policy.rules)
  if not rules or not (rules.denied or rules.allowed) then
    return nil
  end
  local kind = kind_of(fields, first)
  if rules.denied and rules.denied[kind] then
    return { 'ACTION_KIND_DENIED', scopes[#scopes], policy.id }
  end
  if rules.allowed and not rules.allowed[kind] then
    return { 'ACTION_KIND_NOT_ALLOWED', scopes[#scopes], policy.id }
  end
  return nil
end

return { action_refusal = action_refusal, kind_of = kind_of, known_rules = known_rules, rules_text = rules_text }
