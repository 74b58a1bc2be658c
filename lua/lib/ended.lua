-- ended: what each script does with the records of reservations that it has ended.
-- @include fields: FIELD
-- @include keys: reservation_key, quarantine_key, ended_key

-- Queues the records for the janitor, which packs them, since they no longer have to be as fast to read as live ones. Reservations
-- that were repaired and settled leave the quarantine. If one of these writes fails, a record only stays larger, or a quarantine
-- entry longer, than necessary.
local function note_ended(tag, ...)
  redis.pcall('RPUSH', ended_key(tag), ...)
  local left = redis.pcall('HDEL', quarantine_key(tag), ...)
  if type(left) == 'number' and left > 0 then
    for _, reservation_id in ipairs({ ... }) do
      redis.pcall('HDEL', reservation_key(tag, reservation_id), FIELD.quarantined_at, FIELD.quarantine_reason)
    end
  end
end

-- The record expires after the retention.
local function keep_ended(tag, reservation_id, retention_ms)
  redis.call('PEXPIRE', reservation_key(tag, reservation_id), retention_ms)
  note_ended(tag, reservation_id)
end
