-- ended_holds: what each script does with the reservations that it has ended.
-- @include field, journal, keys

-- Reservations that were repaired and settled leave the quarantine. If one of these writes fails, an entry only stays
-- there longer than necessary.
local function leave_quarantine(tag, ...)
  local left = redis.pcall('HDEL', keys.quarantine(tag), ...)
  if type(left) == 'number' and left > 0 then
    for _, reservation_id in ipairs({ ... }) do
      redis.pcall('HDEL', keys.reservation(tag, reservation_id), field.quarantined_at, field.quarantine_reason)
    end
  end
end

-- The end of a reservation that was charged nothing, by a request of this origin. Its record expires after the
-- retention.
local function end_uncharged(tag, reservation_id, retention_ms, origin)
  redis.call('PEXPIRE', keys.reservation(tag, reservation_id), retention_ms)
  journal.append_end(tag, reservation_id, '0', origin)
  leave_quarantine(tag, reservation_id)
end

return { end_uncharged = end_uncharged, leave_quarantine = leave_quarantine }
