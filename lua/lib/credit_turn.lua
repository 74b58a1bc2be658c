-- credit_turn: what lets credits start and end, and writes what becomes of them. lua/lib/credit_record.lua computes it.
-- @include budget_figures, credit_record, event_writer, extras, int64, keys, new_figures, time, waking
--
-- Like a rollover, a turn is a change of its own: whichever script comes first after the moment makes it. A record, a
-- hash, has what is known of a credit beside its budget's field `credits`: the grant, `lapsed` and `voided`, and once
-- nothing is left to burn `status` and `ended_at`. It is kept for 30 days after that.
local KEPT_MS = 30 * 86400000

-- Writes the credits of a budget, and when something next happens to one. An empty text removes them.
local function write_credits(key, text)
  local tag, unit, scope = keys.tag_of(key), keys.unit_and_scope(key)
  local member, moment = scope .. ' ' .. unit, string.match(text, '^%d+')
  if moment then
    redis.call('ZADD', keys.credit_index(tag), moment, member)
  else
    redis.call('ZREM', keys.credit_index(tag), member)
  end
  if text == '' then
    redis.call('HDEL', key, 'credits')
  else
    redis.call('HSET', key, 'credits', text)
  end
  extras.mark_extras(key)
end

-- Ends the script if something that the effects are written to is damaged. Called before the first write.
local function require_places(tag)
  event_writer.require_event_log(tag)
  redis.call('ZCARD', keys.credit_index(tag))
end

-- Counts what credits have paid of what a budget's period has spent: its field `paid_by_credits`. Of that, its own
-- allocation has paid nothing.
local function count_paid(tag, unit, scope, effects)
  local paid = '0'
  for _, share in ipairs(effects.paid or {}) do
    paid = int64.add(paid, share[2])
  end
  for _, happening in ipairs(effects.happened) do
    paid = happening[1] == 'started' and int64.add(paid, happening[4]) or paid
  end
  if paid ~= '0' then
    redis.pcall('HINCRBY', keys.budget(tag, unit, scope), 'paid_by_credits', int64.text(paid))
  end
end

local STATUS_OF = { ended = 'ENDED', exhausted = 'EXHAUSTED', voided = 'VOIDED' }

-- How the events call what the third figure of a happening is.
local AMOUNT_OF = { started = 'debt_repaid', ended = 'lapsed', voided = 'voided' }

local function emit(tag, tenant, unit, scope, origin, happening)
  local word, credit, pinned, amount = happening[1], happening[2], happening[3], happening[4]
  local name = redis.pcall('HGET', keys.credit(tag, credit.id), 'name')
  local figures = { 'credit_id', credit.id, 'name', type(name) == 'string' and name or '', 'unit', unit, 'remaining',
    int64.text(credit.left), 'effective_at', time.ms_text(credit.starts), 'expires_at', credit.ends
    and time.ms_text(credit.ends) or '' }
  if AMOUNT_OF[word] then
    figures[#figures + 1], figures[#figures + 2] = AMOUNT_OF[word], amount
  end
  if word == 'started' then
    return event_writer.append_event(tag, 'custom.credit.started', tenant, scope, origin, figures)
  elseif word == 'ending' then
    return event_writer.append_event(tag, 'custom.credit.ending', tenant, scope, origin, figures)
  elseif word == 'exhausted' then
    return event_writer.append_event(tag, 'custom.credit.exhausted', tenant, scope, origin, figures)
  end
  figures[#figures + 1], figures[#figures + 2] = 'pinned', pinned
  if word == 'ended' then
    return event_writer.append_event(tag, 'custom.credit.ended', tenant, scope, origin, figures)
  end
  return event_writer.append_event(tag, 'custom.credit.voided', tenant, scope, origin, figures)
end

-- Writes the records and the events of what has become of credits. Returns the last event's entry, or nil. The caller
-- has called require_places.
local function write_effects(tag, tenant, unit, scope, origin, effects, now)
  local entry
  count_paid(tag, unit, scope, effects)
  for _, lapse in ipairs(effects.lapses) do
    redis.pcall('HINCRBY', keys.credit(tag, lapse[1]), 'lapsed', lapse[2])
  end
  for _, happening in ipairs(effects.happened) do
    local status, record = STATUS_OF[happening[1]], keys.credit(tag, happening[2].id)
    if status then
      redis.pcall('HSET', record, 'status', status, 'ended_at', time.ms_text(now))
    end
    entry = emit(tag, tenant, unit, scope, origin, happening)
  end
  if #effects.happened > 0 then
    redis.pcall('INCRBY', keys.credits_turned(tag), #effects.happened)
  end
  local index, gone_at = keys.credits_of(tag, unit, scope), time.ms_text(time.redis_ms() + KEPT_MS)
  for _, id in ipairs(effects.gone) do
    redis.pcall('PEXPIRE', keys.credit(tag, id), KEPT_MS)
    redis.pcall('ZADD', index, 'XX', gone_at, id)
  end
  return entry
end

-- Gives a budget these figures and credits, with the events that follow. `former` has the figures before.
local function write_turn(tag, tenant, unit, former, figures, credits, effects, origin, now)
  local key, scope = former.key, former.scope
  figures.is_over_limit = budget_figures.mark_after(former.is_over_limit, former.remaining, figures.remaining,
    figures.debt, former.overdraft_limit)
  redis.call('HSET', key, 'allocated', figures.allocated, 'remaining', figures.remaining, 'spent', figures.spent,
    'debt', figures.debt, 'is_over_limit', figures.is_over_limit, 'updated_at', time.ms_text(now))
  write_credits(key, credit_record.text_of(credits))
  write_effects(tag, tenant, unit, scope, origin, effects, now)
  new_figures.emit_new_figures(tag, tenant, origin, unit, former, figures)
  if former.waiting then
    waking.wake_waiters(key)
  end
end

-- Writes what credit_record.leave has changed in a budget, before its other figures.
local function write_left(budget)
  redis.call('HSET', budget.key, 'allocated', budget.allocated)
  write_credits(budget.key, budget.credits_text or '')
end

-- Lets what is due in a budget's credits happen. `text` is its field `credits`. Returns whether the caller has to read
-- the budget again. Ends the script, with nothing written, if the record is damaged.
local function turn_if_due(tag, key, unit, scope, text, status, now)
  if status == 'CLOSED' or not credit_record.is_due(text, now) then
    return false
  end
  local budget = budget_figures.read_budget(tag, unit, scope)
  budget_figures.require_balanced({ budget })
  local tenant, figures = redis.call('HGET', key, 'tenant_id'), budget_figures.figures_of(budget)
  local credits, effects = credit_record.pass(figures, credit_record.parsed(text), now)
  require_places(tag)
  write_turn(tag, tenant or '', unit, budget, figures, credits, effects, { actor = 'system' }, now)
  return true
end

return {
  require_places = require_places, turn_if_due = turn_if_due, write_credits = write_credits,
  write_effects = write_effects, write_left = write_left, write_turn = write_turn,
}
