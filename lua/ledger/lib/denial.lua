-- denial: the answer to a refused request, and what its event says.
-- @include field, hold_form
--
-- A refusal is a list: a status word, the scope that refused, what remains there, the window of that budget if only
-- this was short, or an empty text, and the limit of that window or of the budget's next period.
-- Where a policy's rules on actions refused, the policy's id stands third, and for a quota its window, the key of that
-- window, how many it has counted, its limit and its risk class.
--
-- The reason code of a decision for a refusal, where it differs from the refusal's own word.
local REASONS = { NOT_FOUND = 'BUDGET_NOT_FOUND', RATE_LIMITED = 'LIMIT_EXCEEDED', KEPT_FOR_WAITER = 'BUDGET_EXCEEDED' }
local ACTION_REFUSALS = { ACTION_KIND_DENIED = true, ACTION_KIND_NOT_ALLOWED = true, ACTION_QUOTA_EXCEEDED = true }
-- The refusals that name a scope and what remains there.
local AT_A_SCOPE = {
  BUDGET_FROZEN = true, BUDGET_CLOSED = true, OVERDRAFT_LIMIT_EXCEEDED = true, DEBT_OUTSTANDING = true,
  BUDGET_EXCEEDED = true, KEPT_FOR_WAITER = true,
}
-- What the event of a denied or observed request does not keep of it, besides fields of a record: members of direct
-- debits.
local UNTOLD = { metrics = true, client_time_ms = true }
-- Stands for a value that a refusal does not have, in the parts that its idempotency record keeps.
local NONE = '-'

-- Adds to `figures` what the event of a denied or observed request keeps of it. `fields` are its field and value pairs.
local function tell(figures, fields)
  for i = 1, #fields, 2 do
    local name, value = fields[i], fields[i + 1]
    if name == field.idempotency_uuid then
      name, value = field.idempotency_key, hold_form.uuid_text(value)
    end
    if not UNTOLD[name] and not field.UNTOLD[name] then
      figures[#figures + 1], figures[#figures + 2] = name, value
    end
  end
end

local function reason_of(refusal)
  return REASONS[refusal[1]] or refusal[1]
end

-- Whether a refusal of a request that only budgets can refuse is a denial, which has an event. One about the request
-- itself, or about a suspended tenant, has none.
local function is_denial(refusal)
  return AT_A_SCOPE[refusal[1]] or refusal[1] == 'NOT_FOUND' or refusal[1] == 'TENANT_CLOSED'
end

local function has_field(fields, first, name)
  for i = first, #fields, 2 do
    if fields[i] == name then
      return true
    end
  end
  return false
end

-- Whether the answer to a denied request has its detail: published clients of 0.1.25 fail at a member that they do not
-- know, so only who uses the extension gets it. `fields` are those of the request, from `first` on.
local function wants_detail(refusal, policy, fields, first)
  return ACTION_REFUSALS[refusal[1]] or policy and policy.rules or has_field(fields, first, field.policy_keys)
end

-- The scope, what remains there, the policy, and the quota's five figures.
local function detail_of(refusal)
  local detail = { NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE }
  if ACTION_REFUSALS[refusal[1]] then
    detail[1] = refusal[2]
    for i = 3, #refusal do
      detail[i] = refusal[i] ~= '' and refusal[i] or NONE
    end
  elseif AT_A_SCOPE[refusal[1]] then
    detail[1], detail[2], detail[7] = refusal[2], refusal[3], refusal[5] or NONE
    detail[4] = refusal[4] and refusal[4] ~= '' and refusal[4] or NONE
  end
  return detail
end

local function given(text)
  return text ~= NONE and text or ''
end

-- The parts of a denial in an idempotency record: its reason, and its detail if the answer has it.
local function denial_parts(refusal, policy, fields, first, is_observed)
  local has_detail = is_observed or wants_detail(refusal, policy, fields, first)
  return { 'DENY', reason_of(refusal), unpack(has_detail and detail_of(refusal) or {}) }
end

-- The reply for these parts.
local function denial_reply(parts, answer)
  local reply = { 'DENY', answer }
  for i = 2, #parts do
    reply[i + 1] = given(parts[i])
  end
  return reply
end

-- The same for observed and enforced denials of one cause, so that a consumer can compare the two.
local function correlated(origin, tenant_id, scope, kind, window_key, reason)
  return { actor = origin.actor, key = origin.key, request = origin.request, trace = origin.trace,
    correlation = 'denial:' .. redis.sha1hex(table.concat({ tenant_id, scope, kind, window_key, reason }, '\31')) }
end

-- The scope, origin and figures of a denial's event. `fields` are the request's field and value pairs; the event keeps
-- subject, action and idempotency key. `correlates` says whether its origin gets a correlation id.
local function denial_event(tenant_id, leaf, origin, unit, amount_name, amount, refusal, fields, correlates)
  local detail, reason = detail_of(refusal), reason_of(refusal)
  local scope, kind = detail[1] ~= NONE and detail[1] or leaf, ''
  local figures = {
    'unit', unit, 'reason_code', reason, amount_name, amount, 'remaining', given(detail[2]),
    'policy_id', given(detail[3]), 'window', given(detail[4]), 'window_key', given(detail[5]), 'used', given(detail[6]),
    'limit', given(detail[7]), 'risk_class', given(detail[8]),
  }
  for i = 1, #fields, 2 do
    if fields[i] == field.action_kind then
      kind = fields[i + 1]
    end
  end
  tell(figures, fields)
  if correlates then
    origin = correlated(origin, tenant_id, scope, kind, given(detail[5]), reason)
  end
  return scope, origin, figures
end

return {
  denial_event = denial_event, denial_parts = denial_parts, denial_reply = denial_reply,
  has_field = has_field, is_denial = is_denial, reason_of = reason_of, tell = tell,
}
