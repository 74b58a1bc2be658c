#!lua
-- keep_evidence: count an envelope against its tenant, and name it in the record of its reservation.
--
-- KEYS[1]   owned            hash of what the tenant owns
-- ARGV[1]   tenant_id
-- ARGV[2]   bytes            that the envelope takes, 0 for one that was counted before
-- ARGV[3]   retention_ms     how long the envelope stays
-- ARGV[4]   max_stored       bytes that the deployment allows a tenant, 0 for no limit
-- ARGV[5]   limited          1 where the tenant's limit refuses the envelope; where it is 0, it was admitted with its
--           reservation
-- ARGV[6]   reservation_id   or empty
-- ARGV[7]   artifact         reserve, commit or release, or empty
-- ARGV[8]   reference        to the envelope, as the record has it
-- RETURNS   KEPT | LIMIT_EXCEEDED limit allowed:int used:int
-- BOUND     one envelope; 33 sums of a tenant
-- EMITS     nothing
-- @include  field, keys, owned_counts, time
local owned_record = KEYS[1]
local tenant_id, bytes, retention_ms, max_stored = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local limited, reservation_id, artifact, reference = ARGV[5] == '1', ARGV[6], ARGV[7], ARGV[8]

local tag = keys.tag_of(owned_record)
if limited then
  local refusal = owned_counts.evidence_refusal(tag, tenant_id, max_stored, bytes)
  if refusal then
    return refusal
  end
end

-- Nothing is refused below this line.
if bytes > 0 then
  owned_counts.count_evidence(tag, tenant_id, bytes, retention_ms, time.now_ms())
end
local reservation = keys.reservation(tag, reservation_id)
-- A record that is gone must not come back as a hash of this field alone.
if artifact ~= '' and redis.pcall('HEXISTS', reservation, field.state) == 1 then
  redis.call('HSET', reservation, artifact == 'reserve' and field.reserve_evidence or field.end_evidence, reference)
end
return { 'KEPT' }
