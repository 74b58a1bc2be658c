-- waking: tells the first reserve that waits for a budget's funds that it can try again.
-- @include extras, int64, keys, time, window_record
--
-- A script that may have raised what remains of a budget, or has closed or frozen it, calls this after it has written
-- the budget, if the budget's field `waiting` is set.
--
-- A place in the queue of a budget is a text: the instance that waits, a number, and the amount, with dots between. It
-- counts as long as the tenant's waiters have it with a time in the future, which its instance extends
-- (lua/ledger/renew_waiters.lua).

-- Places that are checked at once, and how often. What lies behind more places of dead instances is found by the next
-- call.
local PAGE, PAGES = 100, 10

-- The first place in the queue of a budget, its number, and whether places before it were removed because their
-- instances are gone.
-- Nil if nobody waits; then the budget's field is removed.
local function first_waiter(budget, now)
  local tag, unit, scope = keys.tag_of(budget), keys.unit_and_scope(budget)
  local queue, waiters = keys.waiter_queue(tag, unit, scope), keys.waiters(tag, string.match(scope, '^tenant:([^/]+)'))
  for page = 0, PAGES do
    local found, gone = redis.call('ZRANGE', queue, 0, page == 0 and 0 or PAGE - 1, 'WITHSCORES'), {}
    for i = 1, #found, 2 do
      local alive_until = tonumber(redis.call('ZSCORE', waiters, found[i]) or 0)
      if alive_until >= now then
        break
      end
      gone[#gone + 1] = found[i]
    end
    if #gone > 0 then
      redis.call('ZREM', queue, unpack(gone))
      redis.call('ZREM', waiters, unpack(gone))
    end
    local place, number = found[#gone * 2 + 1], found[#gone * 2 + 2]
    if place then
      return place, number, page > 0 or #gone > 0
    elseif #found == 0 then
      redis.call('HDEL', budget, 'waiting')
      extras.mark_extras(budget)
      return nil
    end
  end
  return nil
end

-- Whether the reserve at this place may succeed, or is refused for good, also because the budget has become too small
-- for it.
local function is_worth_a_try(budget, place)
  local f, wanted = redis.call('HMGET', budget, 'status', 'remaining', 'reserved', 'windows', 'allocated'),
    int64.figure(string.match(place, '%d+$'))
  if f[1] ~= 'ACTIVE' or not f[2] or f[5] and int64.less(int64.figure(f[5]), wanted) then
    return true
  elseif int64.less(int64.figure(f[2]), wanted) then
    return false
  end
  return not f[4]
    or not window_record.short_window(window_record.current_windows(budget, f[4], f[1], time.now_ms()),
    int64.figure(f[3]), wanted)
end

local function wake_first(budget)
  local place = first_waiter(budget, time.now_ms())
  if place and is_worth_a_try(budget, place) then
    local unit, scope = keys.unit_and_scope(budget)
    redis.call('PUBLISH', keys.wake_channel(string.match(place, '^%w+')), place .. ' ' .. unit .. ' ' .. scope)
  end
end

-- `budget` is its key. Called between writes, so a damaged queue must not end the script.
local function wake_waiters(budget)
  pcall(wake_first, budget)
end

return { first_waiter = first_waiter, is_worth_a_try = is_worth_a_try, wake_waiters = wake_waiters }
