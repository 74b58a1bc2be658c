#!lua
-- set_webhook_security: replace the configuration of permitted webhook destinations.
--
-- KEYS[1]   webhook_security string, JSON
-- ARGV[1]   config           the new text
-- ARGV[2-5] origin           actor is admin
-- RETURNS   SET
-- BOUND     one text
-- EMITS     nothing
-- @include  audit_log, keys
local webhook_security = KEYS[1]
local config = ARGV[1]
local origin = { actor = ARGV[2], key = ARGV[3], request = ARGV[4], trace = ARGV[5] }

local tag = keys.tag_of(webhook_security)
redis.call('STRLEN', webhook_security)
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
redis.call('SET', webhook_security, config)
audit_log.append_audit(tag, 'updateWebhookSecurityConfig', 200, '__system__', 'config', 'webhook-security', origin,
  { 'metadata', config })
return { 'SET' }
