-- over_limit: the events of scopes that go over their limits, or come back within them.
-- @include event_writer

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

return { emit_over_limit = emit_over_limit }
