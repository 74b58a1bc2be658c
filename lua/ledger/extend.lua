#!lua
-- extend: move the expiry of a live lease further out. The amount held does not change.
--
-- KEYS[1]   reservation      hash
-- KEYS[2]   idempotency      string, the record of this request
-- ARGV[1]   tenant_id        effective tenant
-- ARGV[2]   reservation_id
-- ARGV[3]   fingerprint      of the canonical payload
-- ARGV[4]   extend_by_ms     as requested, counted from the current expiry
-- ARGV[5]   idempotency_ttl_ms
-- ARGV[6]   retention_ms     how long the record is kept if this run expires the hold
-- ARGV[7]   key_id           the requesting API key
-- ARGV[8]   request_id
-- ARGV[9]   trace            trace id and flags
-- RETURNS   ACTIVE answer:fresh|replay expires_at_ms remaining_ttl_ms | IDEMPOTENCY_MISMATCH | NOT_FOUND [defect]
--           | FORBIDDEN
--           | TENANT_CLOSED | RESERVATION_FINALIZED state
--           | RESERVATION_EXPIRED [on_access:now|charged tenant deadline_ms now_ms]
--           | QUARANTINED reason tenant? [again:again] | MAX_EXTENSIONS_EXCEEDED allowed:int
-- BOUND     one hold, at the scopes of its subject (at most 6); 1,000 tenants if a damaged record does not name its own
-- EMITS     those of the expiry transition
-- @include  all_or_none, field, grouped, hold_record, idempotency_record, keys, run_time, settle, tenant_state, time
--
-- Like the reserve's lease, one extension is cut to the max_ttl_ms of the policy that governed the reserve, or else at
-- the tenant's max_reservation_ttl_ms. A hold cannot outlive that * (1 + max_extensions). The returned expiry is
-- authoritative.
local reservation, idempotency = KEYS[1], KEYS[2]
local tenant_id, reservation_id, fingerprint, extend_by_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local idempotency_ttl_ms, retention_ms, key_id = tonumber(ARGV[5]), ARGV[6], ARGV[7]
local origin = { actor = 'api_key', key = key_id, request = ARGV[8], trace = ARGV[9] }

local tag = keys.tag_of(reservation)
local group = grouped.new()
local now = run_time.now(group)

local earlier = idempotency_record.recall(idempotency, fingerprint)
if earlier == 'MISMATCH' then
  return { 'IDEMPOTENCY_MISMATCH' }
elseif earlier then
  local active = redis.pcall('HGET', reservation, field.state) == 'ACTIVE'
  local remaining_ttl_ms = active and math.max(0, tonumber(earlier[1]) - now) or 0
  return { 'ACTIVE', 'replay', earlier[1], time.ms_text(remaining_ttl_ms) }
end

local hold, refusal = settle.open_hold(group, tag, reservation_id, tenant_id, now, retention_ms, origin,
  field.extensions_used, field.constants, field.idempotency_key, field.idempotency_uuid, field.max_ttl_ms,
  field.reservation_set)
if not hold then
  return refusal
end
if now > hold.expires_at then
  return { 'RESERVATION_EXPIRED' }
end
-- Damaged counts allow no extension: a hold must not live forever.
local _, most, made_by = hold_record.constants_of_hold(hold)
local max_extensions = hold_record.whole_number(most or '0') or 0
local extensions = hold_record.whole_number(hold[field.extensions_used] or '0') or max_extensions
if extensions >= max_extensions then
  return { 'MAX_EXTENSIONS_EXCEEDED', time.ms_text(max_extensions) }
end
local max_ttl_ms = hold_record.whole_number(hold[field.max_ttl_ms])
if max_ttl_ms then
  extend_by_ms = math.min(extend_by_ms, max_ttl_ms)
else
  local tenant = tenant_state.read_tenant(keys.tenant(tag, hold.tenant))
  extend_by_ms = tenant and math.min(extend_by_ms, tenant.max_ttl_ms) or extend_by_ms
end

-- Nothing is refused below this line.
local expires_at = hold.expires_at + extend_by_ms
local expires_text = time.ms_text(expires_at)
local used = time.ms_text(extensions + 1)
redis.call('ZADD', hold_record.deadline_index_key(tag, hold), time.ms_text(expires_at + hold.grace_ms), reservation_id)
local granted = time.ms_text(now) .. '+' .. time.ms_text(extend_by_ms) .. (key_id == made_by and '' or '+' .. key_id)
redis.call('HSET', reservation, field.expires_at, expires_text, field.extensions_used, used,
  field.extension .. used, granted)
local reserve_key = hold_record.key_of_hold(hold)
if reserve_key then
  -- A retry of the reserve must find this hold, instead of making a second one, for as long as this one can live.
  local lifetime_ms = math.max(idempotency_ttl_ms, expires_at + hold.grace_ms - now)
  local record = keys.reserve_idempotency(tag, hold.tenant, reserve_key)
  idempotency_record.outlast(record, lifetime_ms)
  if hold[field.reservation_set] then
    local _, records = all_or_none.set_of_parts(tag, idempotency_record.parts_of(record))
    idempotency_record.lapse_together(records)
  end
end
idempotency_record.remember(idempotency, fingerprint, { expires_text },
  time.ms_text(math.max(idempotency_ttl_ms, expires_at + hold.grace_ms - now)))
return { 'ACTIVE', 'fresh', expires_text, time.ms_text(math.max(0, expires_at - now)) }
