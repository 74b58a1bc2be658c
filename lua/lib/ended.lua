-- ended: what every script does with the record of a reservation that it has just ended.
-- @include keys

-- The record goes by itself after the retention. Until then it need not be as quick to read as a live one, so it is noted
-- for the janitor, who packs it. Should the note fail, the record only stays larger than it need be.
-- `quarantined` is the hold's: one that was in quarantine, was mended and is settled is no operator's business any more.
local function keep_ended(tag, reservation_id, retention_ms, quarantined)
  redis.call('PEXPIRE', reservation_key(tag, reservation_id), retention_ms)
  redis.pcall('RPUSH', ended_key(tag), reservation_id)
  if quarantined then
    redis.pcall('HDEL', quarantine_key(tag), reservation_id)
  end
end
