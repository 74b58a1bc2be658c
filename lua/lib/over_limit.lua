-- over_limit: whether debt puts a scope over its limit, what clears the mark, and the events of both.
-- @include event_writer, int64

-- True if the debt exceeds an overdraft limit above 0.
local function debt_over_limit(debt, overdraft_limit)
  return int64.positive(overdraft_limit) and int64.less(overdraft_limit, debt)
end

-- The mark of a budget that funds were added to or taken from. A capped charge marks a scope that ran out of funds. Any
-- change that leaves or adds funds clears the mark, but debt above its limit stays over limit.
local function mark_after(mark, former_remaining, remaining, debt, overdraft_limit)
  if debt_over_limit(debt, overdraft_limit) then
    return '1'
  end
  return (int64.positive(remaining) or int64.less(former_remaining, remaining)) and '0' or mark
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

return { debt_over_limit = debt_over_limit, emit_over_limit = emit_over_limit, mark_after = mark_after }
