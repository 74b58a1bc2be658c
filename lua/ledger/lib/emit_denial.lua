-- emit_denial: the event of a denied reserve or decision.
-- @include denial, event_writer

-- `is_evaluation` says that nothing would have been reserved anyway; such denials are not part of the tenant's denial
-- rate.
local function emit_denial(tag, tenant_id, leaf, origin, unit, amount, refusal, fields, is_evaluation, correlates)
  local scope, cause, figures =
    denial.denial_event(tenant_id, leaf, origin, unit, 'requested_amount', amount, refusal, fields, correlates)
  figures[#figures + 1], figures[#figures + 2] = 'va', is_evaluation and '1' or ''
  if refusal[1] == 'KEPT_FOR_WAITER' then
    figures[#figures + 1], figures[#figures + 2] = 'kw', '1'
  end
  event_writer.append_event(tag, 'reservation.denied', tenant_id, scope, cause, figures)
end

return emit_denial
