-- reserve_replay: the outcome of a repeated reserve, from the parts of its idempotency record.
-- @include admission, denial, field, hold_record, keys, time

-- The parts in the form of those with caps: the word, the id, the end of the lease, the policy, the caps if any, the
-- mask, and the balances.
local function full_parts(tag, parts)
  local id, policy, mask = hold_record.hold_from_parts(tag, parts[1], parts[3])
  return id and { 'ALLOW', id, parts[2], policy, mask, unpack(parts, 4) } or parts
end

-- The original outcome, with the hold's current remaining time. `now` is Redis' time.
local function replayed_reserve(tag, scopes, parts, now)
  local word = parts[1]
  if word == 'DENY' then
    return denial.denial_reply(parts, 'replay')
  elseif word == 'ALLOW_DRY_RUN' then
    return admission.with_balances({ word, 'replay' }, scopes, parts, 2)
  elseif word == 'DRY_RUN_WITH_CAPS' then
    return admission.with_balances({ word, 'replay', parts[2] }, scopes, parts, 3)
  end
  parts = full_parts(tag, parts)
  word = parts[1]
  local held_id, expires_at = parts[2], tonumber(parts[3])
  local active = redis.pcall('HGET', keys.reservation(tag, held_id), field.state) == 'ACTIVE'
  local remaining_ttl_ms = active and math.max(0, expires_at - now) or 0
  local reply = { word, 'replay', held_id, parts[3], time.ms_text(remaining_ttl_ms), parts[4] }
  if word == 'ALLOW_WITH_CAPS' then
    reply[7] = parts[5]
    return admission.with_balances(reply, scopes, parts, 6)
  end
  return admission.with_balances(reply, scopes, parts, 5)
end

return { replayed_reserve = replayed_reserve }
