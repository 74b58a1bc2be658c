#!lua flags=allow-oom
-- cleanup_reservations: expire holds under MANUAL_CLEANUP whose grace is over, in bounded pages of the partition's
-- cleanup index.
-- Runs only at the request of an operator.
-- It carries allow-oom because it returns budget and must run when Redis is full.
--
-- KEYS[1]   cleanup_index  zset, score = reclaim deadline in ms
-- ARGV[1]   tenant_id      only this tenant's holds, or empty for all
-- ARGV[2]   overdue_for_ms only holds whose grace ended at least this long ago
-- ARGV[3]   walked_ms      where the previous run ended: the score, or empty to start
-- ARGV[4]   walked_id      its reservation
-- ARGV[5]   examine        maximum entries to examine
-- ARGV[6]   limit          maximum entries to decide on
-- ARGV[7]   dry_run        1 changes nothing
-- ARGV[8]   reason         free text for the audit log, or empty
-- ARGV[9]   retention_ms   how long an ended record is kept for the audit view
-- ARGV[10]  request_id
-- ARGV[11]  trace          trace id and flags, then the sender: see lib/audit_log
-- ARGV[12]  key_id         the operator; empty for the admin key
-- RETURNS   CLEANED now_ms walked_ms:text? walked_id? examined:int reservations(reservation_id word detail?
--           second_detail?)*
-- BOUND     examine entries, of which limit are decided on
-- EMITS     those of the expiry transition
-- @include  audit_log, event_writer, expiry, hold_record, index_walk, keys, time
--
-- walked_ms is empty at the end.
-- The outcomes are those of lua/expiry/expire.lua, and WOULD_EXPIRE tenant deadline_ms in a dry run. Expired and
-- quarantined holds leave the index, so an aborted walk can start over. An entry of unknown owner is included for every
-- tenant: its record is damaged or missing.
local index = KEYS[1]
local tenant_id, overdue_for_ms, walked_ms, walked_id = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local examine, limit, dry_run, reason, retention_ms = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == '1',
  ARGV[8], ARGV[9]
local request_id, trace, key_id = ARGV[10], ARGV[11], ARGV[12]

local tag = keys.tag_of(index)
local now = time.now_ms()
local origin = { actor = 'admin', key = key_id, request = request_id, trace = trace, cleanup = true }
event_writer.require_event_log(tag)
audit_log.require_audit_log(tag)

local entries = index_walk.index_stretch(index, false, '-inf', time.ms_text(math.min(now - overdue_for_ms, now - 1)),
  walked_ms, walked_id, examine)
local ids, holds, examined = {}, {}, 0
for i = 1, #entries, 2 do
  if #ids == limit then
    break
  end
  walked_id, walked_ms, examined = entries[i], entries[i + 1], examined + 1
  local readable, hold = pcall(hold_record.load_hold, keys.reservation(tag, walked_id))
  local owner = readable and hold and hold.tenant
  if tenant_id == '' or not owner or owner == tenant_id then
    ids[#ids + 1] = walked_id
    holds[walked_id] = readable and hold or nil
  end
end
if examined == #entries / 2 and examined < examine then
  walked_ms, walked_id = '', ''
end

-- Nothing is refused below this line.
local outcomes = {}
if dry_run then
  for i, reservation_id in ipairs(ids) do
    local hold = holds[reservation_id]
    if hold and hold_record.awaits_cleanup(hold, now) then
      outcomes[i] = { 'WOULD_EXPIRE', hold.tenant, time.ms_text(hold_record.reclaim_deadline(hold)) }
    else
      outcomes[i] = { 'SKIP', 'not_sound', '' }
    end
  end
else
  outcomes = expiry.reclaim(tag, ids, now, retention_ms, origin, index)
end
local reply = { 'CLEANED', time.ms_text(now), walked_ms, walked_id, tostring(examined) }
for i, outcome in ipairs(outcomes) do
  if outcome[1] == 'EXPIRED' or outcome[1] == 'CHARGED' then
    local details = { 'reclaim_deadline', outcome[3], 'reason', reason }
    if outcome.charge then
      details[#details + 1], details[#details + 2] = 'charged', outcome.charge
    end
    audit_log.append_audit(tag, 'cleanupReservations', 200, outcome[2], 'reservation', ids[i], origin, details)
  end
  reply[#reply + 1] = ids[i]
  for part = 1, 3 do
    reply[#reply + 1] = outcome[part] or ''
  end
end
return reply
