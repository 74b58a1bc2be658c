-- credit_grant: grants credits to a budget, whoever does: an operator, or a template.
-- @include credit_turn, event_writer, keys, time

-- Ends the script if something that a grant writes is damaged. Called before the first write.
local function require_places(tag, unit, scope)
  credit_turn.require_places(tag)
  redis.call('ZCARD', keys.credits_of(tag, unit, scope))
end

-- Writes what granted_credits.plan has computed: the records of the credits, the budget, and the events of both.
local function write(tag, tenant_id, unit, plan, origin, now)
  local budget, scope = plan.budget, plan.budget.scope
  local index = keys.credits_of(tag, unit, scope)
  redis.call('ZREMRANGEBYSCORE', index, '(0', time.ms_text(time.redis_ms()))
  for _, grant in ipairs(plan.grants) do
    local starts, ends = time.ms_text(grant.starts), grant.ends and time.ms_text(grant.ends) or ''
    redis.call('ZADD', index, 0, grant.id)
    redis.call('HSET', keys.credit(tag, grant.id), 'tenant_id', tenant_id, 'scope', scope, 'unit', unit,
      'amount', grant.amount, 'name', grant.name, 'category', grant.category, 'priority', grant.priority,
      'effective_at', starts, 'expires_at', ends, 'notify_before_ms', grant.notify_before_ms,
      'metadata', grant.metadata, 'created_at', time.ms_text(now))
    event_writer.append_event(tag, 'custom.credit.granted', tenant_id, scope, origin,
      { 'ledger_id', budget.ledger_id, 'credit_id', grant.id, 'name', grant.name, 'category', grant.category,
        'unit', unit, 'amount', grant.amount, 'priority', grant.priority, 'effective_at', starts, 'expires_at', ends,
        'metadata', grant.metadata })
  end
  credit_turn.write_turn(tag, tenant_id, unit, budget, plan.figures, plan.credits, plan.effects, origin, now)
end

-- The same of what a template gives. The budget notes it: it gets each of its template's credits once, ever. `given` is
-- what it has noted before, if anything.
local function write_of_template(tag, tenant_id, unit, plan, given, origin, now)
  local ids = { given }
  for _, grant in ipairs(plan.grants) do
    ids[#ids + 1] = grant.id
  end
  redis.call('HSET', plan.budget.key, 'template_credits', table.concat(ids, ' '))
  write(tag, tenant_id, unit, plan, origin, now)
end

return { require_places = require_places, write = write, write_of_template = write_of_template }
