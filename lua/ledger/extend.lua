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
-- RETURNS   ACTIVE answer:fresh|replay expires_at_ms remaining_ttl_ms | IDEMPOTENCY_MISMATCH | NOT_FOUND [defect] | FORBIDDEN
--           | TENANT_CLOSED | RESERVATION_FINALIZED state | RESERVATION_EXPIRED [on_access:now tenant deadline_ms now_ms]
--           | QUARANTINED reason tenant? [again:again] | MAX_EXTENSIONS_EXCEEDED allowed:int
-- BOUND     one hold, at the scopes of its subject (at most 6); 1,000 tenants if a damaged record does not name its own
-- EMITS     those of the expiry transition
-- @include  fields: FIELD
-- @include  keys: tag_of_key, tenant_key, reserve_idempotency_key
-- @include  now_ms: ms_text
-- @include  idempotency: recall, remember, outlast
-- @include  group: new_group, group_now
-- @include  settle: open_hold
-- @include  tenant: read_tenant
-- @include  tenant_clock: clock_of
-- @include  hold: whole_number, constants_of_hold, key_of_hold, deadline_index_key
--
-- Like the reserve's lease, one extension is capped at the max_ttl_ms of the policy that governed the reserve, or else at the
-- tenant's max_reservation_ttl_ms. A hold cannot outlive that * (1 + max_extensions). The returned expiry is authoritative.
local reservation, idempotency = KEYS[1], KEYS[2]
local tenant_id, reservation_id, fingerprint, extend_by_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local idempotency_ttl_ms, retention_ms, key_id = tonumber(ARGV[5]), ARGV[6], ARGV[7]
local origin = { actor = 'api_key', key = key_id, request = ARGV[8], trace = ARGV[9] }

local tag = tag_of_key(reservation)
local group = new_group()
local now = group_now(group)

local earlier = recall(idempotency, fingerprint)
if earlier == 'MISMATCH' then
  return { 'IDEMPOTENCY_MISMATCH' }
elseif earlier then
  local active = redis.pcall('HGET', reservation, FIELD.state) == 'ACTIVE'
  now = clock_of(tag, tenant_id) or now
  local remaining_ttl_ms = active and math.max(0, tonumber(earlier[1]) - now) or 0
  return { 'ACTIVE', 'replay', earlier[1], ms_text(remaining_ttl_ms) }
end

local hold, refusal = open_hold(group, tag, reservation_id, tenant_id, now, retention_ms, origin, FIELD.extensions_used, FIELD.constants,
  FIELD.idempotency_key, FIELD.idempotency_uuid, FIELD.max_ttl_ms)
if not hold then
  return refusal
end
now = hold.now
if now > hold.expires_at then
  return { 'RESERVATION_EXPIRED' }
end
-- Damaged counts allow no extension: a hold must not live forever.
local _, most, made_by = constants_of_hold(hold)
local max_extensions = whole_number(most or '0') or 0
local extensions = whole_number(hold[FIELD.extensions_used] or '0') or max_extensions
if extensions >= max_extensions then
  return { 'MAX_EXTENSIONS_EXCEEDED', ms_text(max_extensions) }
end
local max_ttl_ms = whole_number(hold[FIELD.max_ttl_ms])
if max_ttl_ms then
  extend_by_ms = math.min(extend_by_ms, max_ttl_ms)
else
  local tenant = read_tenant(tenant_key(tag, hold.tenant))
  extend_by_ms = tenant and math.min(extend_by_ms, tenant.max_ttl_ms) or extend_by_ms
end

-- Nothing is refused below this line.
local expires_at = hold.expires_at + extend_by_ms
local expires_text = ms_text(expires_at)
local used = ms_text(extensions + 1)
redis.call('ZADD', deadline_index_key(tag, hold), ms_text(expires_at + hold.grace_ms), reservation_id)
local granted = ms_text(now) .. '+' .. ms_text(extend_by_ms) .. (key_id == made_by and '' or '+' .. key_id)
redis.call('HSET', reservation, FIELD.expires_at, expires_text, FIELD.extensions_used, used, FIELD.extension .. used, granted)
local reserve_key = key_of_hold(hold)
if reserve_key then
  -- A retry of the reserve must find this hold, instead of making a second one, for as long as this one can live.
  local lifetime_ms = math.max(idempotency_ttl_ms, expires_at + hold.grace_ms - now)
  outlast(reserve_idempotency_key(tag, hold.tenant, reserve_key), lifetime_ms, hold.tenant, hold.clock_ms)
end
remember(idempotency, fingerprint, { expires_text }, ms_text(math.max(idempotency_ttl_ms, expires_at + hold.grace_ms - now)), hold.tenant,
  hold.clock_ms)
return { 'ACTIVE', 'fresh', expires_text, ms_text(math.max(0, expires_at - now)) }
