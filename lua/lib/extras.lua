-- extras: the marker of budgets that have one of the fields which few budgets have: waiting, period_end, windows and
-- credits.
--
-- Every reserve and commit reads the budgets of its scopes, and each field costs it about a hundredth of its time. So
-- they read `extras`, and these fields only if it is set. Whatever sets or removes one of them calls mark_extras
-- afterwards.
local function mark_extras(key)
  local f = redis.call('HMGET', key, 'extras', 'waiting', 'period_end', 'windows', 'credits')
  local has_extras = f[2] or f[3] or f[4] or f[5]
  if has_extras and not f[1] then
    redis.call('HSET', key, 'extras', '1')
  elseif f[1] and not has_extras then
    redis.call('HDEL', key, 'extras')
  end
end

return { mark_extras = mark_extras }
