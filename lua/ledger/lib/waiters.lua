-- waiters: reserves that wait for funds, first come, first served at each budget.
-- @include extras, funds, int64, keys, time, waking
--
-- A reserve that lacks funds takes a place in the queue of the deepest budget that lacks them, and its instance runs it
-- again when it is woken. It has one place at a time, and keeps the number of its arrival wherever it moves. No waiter
-- passes an earlier one at the budget where that one waits, so returned funds add up for the first, however much it
-- wants. It does not hold up those that only share budgets above: as long as the deeper one lacks funds, it could not
-- take theirs. Reserves that do not wait ignore the queue.
local waiters = {}

-- How long a place counts without a word from its instance. src/reservations/reserve/funds-waiters.ts renews it several
-- times as often.
local LEASE_MS = 3000
-- Longer than any wait. Keys that nobody writes for so long are no longer needed.
local KEPT_MS = 120000

-- The refusals after which funds can come back.
local LACKING = {
  BUDGET_EXCEEDED = true, KEPT_FOR_WAITER = true, OVERDRAFT_LIMIT_EXCEEDED = true, DEBT_OUTSTANDING = true,
}

-- `text` has, with spaces between: how many of the tenant may wait, how long this one still waits in ms, its place, the
-- number of its arrival, and the scope whose queue it is in. A hyphen stands for a number or scope that it does not
-- have yet.
function waiters.parse(text)
  local most, wait_ms, place, number, scope = string.match(text, '^(%d+) (%d+) (%S+) (%S+) (.+)$')
  return { most = tonumber(most), wait_ms = tonumber(wait_ms), place = place, number = tonumber(number), scope = scope }
end

-- The refusal if another waiter comes first at one of the budgets, or nil.
function waiters.refusal(budgets, waiter, now)
  for i = #budgets, 1, -1 do
    local budget = budgets[i]
    local place, number, has_moved
    if budget.waiting then
      place, number, has_moved = waking.first_waiter(budget.key, now)
    end
    if place and place ~= waiter.place then
      if has_moved then
        waking.wake_waiters(budget.key)
      end
      if not waiter.number or tonumber(number) < waiter.number then
        return funds.refusal_at('KEPT_FOR_WAITER', budget)
      end
    end
  end
  return nil
end

-- Whether a budget, or a window of it, can never cover the amount, however much is returned to it: holds do not draw on
-- the overdraft. A period that ends before the wait may bring more.
local function is_too_small(budget, wanted, waiter, now)
  if int64.less(budget.allocated_figure, wanted) then
    -- One that is not made yet has no queue.
    return budget.birth or not budget.period_end or tonumber(budget.period_end) > now + waiter.wait_ms
  end
  for _, window in ipairs(budget.windows or {}) do
    if int64.less(window.limit, wanted) then
      return true
    end
  end
  return false
end

-- The scope of the deepest budget that lacks funds, or `refused` if none does, because another waiter comes first
-- there. Nil if waiting is in vain.
local function place_of(budgets, refused, waiter, now)
  local wanted, deepest = int64.figure(string.match(waiter.place, '%d+$')), nil
  for _, budget in ipairs(budgets) do
    if is_too_small(budget, wanted, waiter, now) then
      return nil
    elseif funds.lacks_funds(budget, wanted) then
      deepest = budget.scope
    end
  end
  return deepest or refused
end

-- Makes a refused reserve wait, and returns the reply. Nil if it cannot: the refusal is for another reason, its time is
-- over, a budget is too small for it, or too many of the tenant wait already.
function waiters.join(tag, tenant_id, unit, budgets, refusal, waiter, now)
  if not LACKING[refusal[1]] or waiter.wait_ms == 0 then
    return nil
  end
  local alive, place = keys.waiters(tag, tenant_id), waiter.place
  local scope = place_of(budgets, refusal[2], waiter, now)
  if not scope then
    return nil
  end
  if not waiter.number then
    redis.call('ZREMRANGEBYSCORE', alive, '-inf', '(' .. time.ms_text(now))
    if redis.call('ZCARD', alive) >= waiter.most then
      return nil
    end
    waiter.number = redis.call('INCR', keys.arrivals(tag))
    redis.call('PEXPIRE', keys.arrivals(tag), KEPT_MS)
  elseif waiter.scope ~= scope then
    redis.call('ZREM', keys.waiter_queue(tag, unit, waiter.scope), place)
    waking.wake_waiters(keys.budget(tag, unit, waiter.scope))
  end
  local queue, number = keys.waiter_queue(tag, unit, scope), time.ms_text(waiter.number)
  redis.call('ZADD', alive, time.ms_text(now + LEASE_MS), place)
  redis.call('PEXPIRE', alive, KEPT_MS)
  redis.call('ZADD', queue, number, place)
  redis.call('PEXPIRE', queue, KEPT_MS)
  redis.call('HSET', keys.budget(tag, unit, scope), 'waiting', '1')
  extras.mark_extras(keys.budget(tag, unit, scope))
  for _, budget in ipairs(budgets) do
    if budget.scope == scope then
      budget.waiting = '1'
    end
  end
  return { 'WAITING', number, scope }
end

-- Gives up the place of a reserve that has got its funds. What it leaves wakes the next one when the budgets are
-- written.
function waiters.leave(tag, tenant_id, unit, waiter)
  if waiter.number then
    redis.pcall('ZREM', keys.waiters(tag, tenant_id), waiter.place)
    redis.pcall('ZREM', keys.waiter_queue(tag, unit, waiter.scope), waiter.place)
  end
end

return waiters
