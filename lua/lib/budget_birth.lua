-- budget_birth: how a budget comes into being, whoever makes it: an operator, a client of the governance plane, or a
-- template.
-- @include event_writer, keys, period_starts, scope_tree, time, window_turn
--
-- `birth` is what is to be made: `key`, `tenant_id`, `ledger_id`, `scope`, `unit`, `allocated`, `overdraft_limit`,
-- `fields` (field and value pairs of the record), and where it has them: `period` of period_starts.new_period,
-- `recurrence` with the `following` boundaries, `windows` with their `rules` and `plans`, and the `template_id` that
-- made it with its `revision`.

-- Ends the script if something that a birth writes beside the record is damaged. Called before the first write.
local function require_places(tag, tenant_id)
  redis.call('ZCARD', keys.budget_index(tag, tenant_id))
  redis.call('ZCARD', keys.period_index(tag))
  redis.call('ZCARD', keys.period_plans(tag))
  event_writer.require_event_log(tag)
end

local function make(tag, birth, now, origin)
  local key, scope, unit, allocated, period = birth.key, birth.scope, birth.unit, birth.allocated, birth.period
  -- The index first: if it is damaged, the script fails here.
  redis.call('ZADD', keys.budget_index(tag, birth.tenant_id), 0, scope_tree.in_tree_order(scope .. ' ' .. unit))
  local now_text, starts, ends = time.ms_text(now), period and period.starts or '', period and period.ends or ''
  redis.call('HSET', key, 'remaining', allocated, 'reserved', '0', 'spent', '0', 'allocated', allocated, 'debt', '0',
    'overdraft_limit', birth.overdraft_limit, 'is_over_limit', '0', 'status', 'ACTIVE', 'ledger_id', birth.ledger_id,
    'tenant_id', birth.tenant_id, 'created_at', now_text, 'updated_at', now_text, unpack(birth.fields))
  if birth.template_id then
    redis.call('HSET', key, 'template_id', birth.template_id, 'template_revision', birth.revision)
  end
  period_starts.set_period(tag, key, unit, scope, period, allocated)
  if birth.recurrence then
    redis.call('HSET', key, 'recurrence', birth.recurrence)
    period_starts.set_boundaries(tag, key, unit, scope, birth.following)
  end
  if birth.windows then
    window_turn.set_windows(tag, key, unit, scope, birth.windows, birth.rules, birth.plans)
  end
  event_writer.append_event(tag, 'budget.created', birth.tenant_id, scope, origin,
    { 'ledger_id', birth.ledger_id, 'unit', unit, 'operation', 'CREATE', 'new_allocated', allocated, 'new_remaining',
    allocated,
      'new_debt', '0', 'new_spent', '0', 'new_reserved', '0', 'new_status', 'ACTIVE', 'new_period_start', starts,
      'new_period_end', ends, 'template_id', birth.template_id or '' })
end

return { make = make, require_places = require_places }
