-- ended_holds: what each script does with the records of reservations that it has ended.
-- @include field, keys

-- Queues the records for the janitor, which packs them, since they no longer have to be as fast to read as live ones. Reservations
-- that were repaired and settled leave the quarantine. If one of these writes fails, a record only stays larger, or a quarantine
-- entry longer, than necessary.
local function note_ended(tag, ...)
  redis.pcall('RPUSH', keys.ended(tag), ...)
  local left = redis.pcall('HDEL', keys.quarantine(tag), ...)
  if type(left) == 'number' and left > 0 then
    for _, reservation_id in ipairs({ ... }) do
      redis.pcall('HDEL', keys.reservation(tag, reservation_id), field.quarantined_at, field.quarantine_reason)
    end
  end
end

-- The record expires after the retention.
local function keep_ended(tag, reservation_id, retention_ms)
  redis.call('PEXPIRE', keys.reservation(tag, reservation_id), retention_ms)
  note_ended(tag, reservation_id)
end

return { keep_ended = keep_ended, note_ended = note_ended }
