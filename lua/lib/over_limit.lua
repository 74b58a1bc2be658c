-- over_limit: whether debt puts a scope over its limit, and the events of that.
-- @include event_writer, int64

-- True if the debt exceeds an overdraft limit above 0.
local function debt_over_limit(debt, overdraft_limit)
  return int64.positive(overdraft_limit) and int64.less(overdraft_limit, debt)
end

-- Emits an event if a scope went over its limit or came back within it.
local function emit_over_limit(tag, tenant_id, scope, origin, unit, was_over, is_over, debt, overdraft_limit)
  if is_over and not was_over then
    event_writer.append_event(tag, 'budget.over_limit_entered', tenant_id, scope, origin,
      { 'unit', unit, 'debt', debt, 'overdraft_limit', overdraft_limit, 'is_over_limit', '1' })
  elseif was_over and not is_over then
    event_writer.append_event(tag, 'budget.over_limit_exited', tenant_id, scope, origin,
      { 'unit', unit, 'debt', debt, 'overdraft_limit', overdraft_limit, 'is_over_limit', '0' })
  end
end

return { debt_over_limit = debt_over_limit, emit_over_limit = emit_over_limit }
