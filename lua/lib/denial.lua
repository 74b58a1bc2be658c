-- denial: the event of a refused request.
-- @include fields: FIELD
-- @include append_event: append_event
--
-- The reason code of a decision for a refusal, where it differs from the refusal's own word.
local REASONS = { NOT_FOUND = 'BUDGET_NOT_FOUND', RATE_LIMITED = 'LIMIT_EXCEEDED' }

local function reason_of(refusal)
  return REASONS[refusal[1]] or refusal[1]
end

-- `refusal` is a status word, the scope that refused and what remains there. `fields` are the record's field and value pairs; the
-- event keeps subject and action. `is_evaluation` says that nothing would have been reserved anyway; such denials are not part of the
-- tenant's denial rate.
local function emit_denial(tag, tenant_id, leaf, origin, unit, amount, refusal, fields, is_evaluation)
  local figures = {
    'va', is_evaluation and '1' or '', 'unit', unit, 'reason_code', reason_of(refusal), 'requested_amount', amount, 'remaining', refusal[3] or '',
  }
  for i = 1, #fields, 2 do
    if fields[i] ~= FIELD.metadata and fields[i] ~= FIELD.idempotency_key then
      figures[#figures + 1] = fields[i]
      figures[#figures + 1] = fields[i + 1]
    end
  end
  append_event(tag, 'reservation.denied', tenant_id, refusal[2] or leaf, origin, figures)
end
