-- attest: what a script's attested function does around the script: it says when and in which trace the outcome was
-- decided.
-- @include idempotency_record, run_time, time
--
-- A script with an ATTESTED line in its header has two functions of the same code. The service calls the attested one
-- where it issues evidence (src/redis/scripts.ts), so without evidence nothing here is run. The stamp, the instant and
-- the trace id with a colon between, stands as one last text behind each reply. The idempotency record keeps it behind
-- the fingerprint, so that a replay has the stamp of the first outcome; it is empty where that outcome was not
-- attested.

-- `places` says where the script has its idempotency record among the keys, and its fingerprint and trace among the
-- arguments.
local function attested_reply(call, places, keys, args, group)
  local now = group and run_time.now(group) or time.now_ms()
  local stamp = time.ms_text(now) .. ':' .. string.match(args[places.trace], '^%x*')
  args[places.fingerprint] = args[places.fingerprint] .. ':' .. stamp
  local reply = call(keys, args, group)
  if reply[2] == 'replay' then
    local record = redis.call('GET', keys[places.idempotency])
    stamp = record and string.match(idempotency_record.recorded_texts(record)[1] or '', ':(.*)$') or ''
  end
  reply[#reply + 1] = stamp
  return reply
end

return { attested_reply = attested_reply }
