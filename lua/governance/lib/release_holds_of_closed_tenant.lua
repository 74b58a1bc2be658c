-- release_holds_of_closed_tenant: releases the holds of a closed tenant.
-- Implements CASCADE SEMANTICS, Rule 1, of cycles-governance-admin-v0.1.25. Holds that have already ended are skipped,
-- so the cascade may start over at any time, and several may run concurrently.
-- @include action_counters, ended_holds, expiry, field, give_back, hold_record, int64, journal, keys,
--          owned_counts, time

-- Releases those of the given entries of an index of deadlines that are live holds of the tenant. The returns are added
-- up in each budget's record and reported when it is closed: the protocol has one event per budget for this, not one
-- per reservation. Each budget is read and written once, however many of the holds it has. Returns how many holds ended
-- or were quarantined, and the outcomes to report: expiries of holds that were already overdue, quarantines, and stale
-- entries.
local function release_holds_of_closed_tenant(tag, tenant_id, index, reservation_ids, now, retention_ms, origin)
  local live, overdue = {}, {}
  for _, reservation_id in ipairs(reservation_ids) do
    local readable, hold = pcall(hold_record.load_hold, keys.reservation(tag, reservation_id), field.run_counters,
      field.created_at)
    if readable and hold and hold.tenant == tenant_id and hold.state == 'ACTIVE' then
      if hold_record.is_overdue(hold, now) then
        overdue[#overdue + 1] = reservation_id
      else
        live[#live + 1] = { reservation_id, hold }
      end
    end
  end
  -- These come first, because they write budgets that the others then read.
  local outcomes = expiry.reclaim(tag, overdue, now, retention_ms, origin, index)
  if #overdue > 0 then
    -- They may have been in the cleanup index, where they do not belong.
    redis.call('ZREM', index, unpack(overdue))
  end
  local ended = 0
  for _, outcome in ipairs(outcomes) do
    ended = ended + ((outcome[1] == 'EXPIRED' or outcome[1] == 'CHARGED' or outcome[1] == 'QUARANTINED') and 1 or 0)
  end
  local returns = give_back.new_returns(now)
  for _, one in ipairs(live) do
    local reservation_id, hold = one[1], one[2]
    local reason = hold_record.terms_defect(hold) or give_back.take_back(tag, returns, reservation_id, hold)
    if reason then
      outcomes[#outcomes + 1] = expiry.quarantine(tag, reservation_id, hold.key, reason, origin, tenant_id, true)
      ended = ended + 1
    else
      for _, budget in ipairs(returns.families[hold.subject]) do
        budget.cascade_released = int64.saturating_add(budget.cascade_released or '0', hold.amount)
      end
    end
  end
  local ids = returns.ids
  if #ids == 0 then
    return ended, outcomes
  end
  journal.require_journal(tag)
  redis.call('ZCARD', keys.credit_index(tag))
  redis.call('ZREM', index, unpack(ids))
  give_back.write_returns(tag, returns, origin)
  for _, budget in ipairs(returns.budgets) do
    if budget.cascade_released then
      local released = redis.call('HGET', budget.key, 'cascade_released') or '0'
      redis.call('HSET', budget.key, 'cascade_released', int64.saturating_add(released, budget.cascade_released))
    end
  end
  for i, hold in ipairs(returns.holds) do
    redis.call('HSET', hold.key, field.state, 'RELEASED', field.ended_at, time.ms_text(now), field.ended_by, 'system',
      field.release_reason, 'tenant_closed')
    redis.call('PEXPIRE', hold.key, retention_ms)
    journal.append_end(tag, ids[i], '0')
    action_counters.uncount_run(tag, tenant_id, hold[field.run_counters])
  end
  owned_counts.count_ended(tag, tenant_id, #ids)
  ended_holds.leave_quarantine(tag, unpack(ids))
  return ended + #ids, outcomes
end

return release_holds_of_closed_tenant
