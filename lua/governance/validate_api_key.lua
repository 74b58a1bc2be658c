#!lua flags=allow-oom
-- validate_api_key: check whether a secret is valid, and return what it permits. An invalid secret emits an event.
-- allow-oom: the check must work when Redis is full.
--
-- KEYS[1]   secret_hash      string, the id of the key whose secret has this hash
-- ARGV[1]   malformed        1 if the secret does not have the form of one
-- ARGV[2-5] origin           actor is admin
-- RETURNS   VALID key_id tenant_id expires_at_ms permissions scope_filter
--           | INVALID reason:INVALID_FORMAT|NOT_FOUND|REVOKED|EXPIRED|TENANT_SUSPENDED|TENANT_CLOSED tenant_id? key_id?
-- BOUND     three records, of which only small fields are read
-- EMITS     api_key.auth_failed
-- @include  api_key_record, event_writer, keys, tenant_state, time
--
-- Unlike lua/governance/authenticate.lua, it rejects keys of closed tenants: no later operation here could refuse them.
local secret_hash = KEYS[1]
local malformed = ARGV[1] == '1'
local origin = { actor = ARGV[2], key = ARGV[3], request = ARGV[4], trace = ARGV[5] }
local WORDS = { INVALID_FORMAT = 'invalid_format', NOT_FOUND = 'key_not_found', REVOKED = 'key_revoked',
  EXPIRED = 'key_expired', TENANT_SUSPENDED = 'tenant_suspended', TENANT_CLOSED = 'tenant_closed' }

local tag = keys.tag_of(secret_hash)

local key_id = not malformed and redis.call('GET', secret_hash)
local record = key_id and api_key_record.read_api_key(keys.api_key(tag, key_id))
if key_id and not record then
  error('the API key ' .. key_id .. ' has a secret but no record')
end

local function reason_of()
  if not record then
    return malformed and 'INVALID_FORMAT' or 'NOT_FOUND'
  end
  if record.status == 'REVOKED' then
    return 'REVOKED'
  end
  if record.expires_at <= time.now_ms() then
    return 'EXPIRED'
  end
  local tenant = tenant_state.read_tenant(keys.tenant(tag, record.tenant))
  return tenant and tenant.status ~= 'ACTIVE' and 'TENANT_' .. tenant.status or nil
end

local reason = reason_of()
if not reason then
  return { 'VALID', key_id, record.tenant, time.ms_text(record.expires_at), record.permissions, record.scope_filter }
end
-- Nothing is refused below this line.
event_writer.append_event(tag, 'api_key.auth_failed', record and record.tenant or '__system__', nil, origin,
  { 'key_id', key_id or '', 'key_name', record and record.name or '', 'failure_reason', WORDS[reason] })
return { 'INVALID', reason, record and record.tenant or '', key_id or '' }
