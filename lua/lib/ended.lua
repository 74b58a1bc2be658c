-- ended: what every script does with the records of reservations that it has just ended.
-- @include fields: FIELD
-- @include keys: reservation_key, quarantine_key, ended_key

-- A record need not be as quick to read any more as a live one, so it is noted for the janitor, who packs it. And one that was in
-- quarantine, was mended and is settled is no operator's business any more. Should a note fail, the record only stays larger,
-- or the entry longer, than it need be.
local function note_ended(tag, ...)
  redis.pcall('RPUSH', ended_key(tag), ...)
  local left = redis.pcall('HDEL', quarantine_key(tag), ...)
  if type(left) == 'number' and left > 0 then
    for _, reservation_id in ipairs({ ... }) do
      redis.pcall('HDEL', reservation_key(tag, reservation_id), FIELD.quarantined_at, FIELD.quarantine_reason)
    end
  end
end

-- The record goes by itself after the retention.
local function keep_ended(tag, reservation_id, retention_ms)
  redis.call('PEXPIRE', reservation_key(tag, reservation_id), retention_ms)
  note_ended(tag, reservation_id)
end
