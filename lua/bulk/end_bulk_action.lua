#!lua flags=allow-oom
-- end_bulk_action: keep the response of a bulk action, with its one audit row.
-- allow-oom: the changes are already made.
--
-- KEYS[1]   bulk             hash, the record of this action in the partition of its audit row
-- ARGV[1]   fingerprint      of the canonical request
-- ARGV[2]   keep_ms          how long a repeated request is answered with this response
-- ARGV[3]   response         JSON
-- ARGV[4]   operation        operation name for the audit row
-- ARGV[5]   resource_type
-- ARGV[6]   owner            the tenant whose things were changed, or __system__
-- ARGV[7]   correlation_id
-- ARGV[8-11] origin           actor is admin or admin_on_behalf_of
-- ARGV[...] name and value pairs of the audit row's metadata
-- RETURNS   ENDED answer:fresh|replay response
-- BOUND     one record, which holds the response about 500 rows at most
-- EMITS     nothing
-- @include  audit_log, keys
--
-- Returns the response that was stored first. The record may be new: an action on one tenant's things is claimed in the
-- partition of the operators, so that a key is unique, but its audit row belongs to the tenant.
local bulk = KEYS[1]
local fingerprint, keep_ms, response, operation, resource_type, owner = ARGV[1], ARGV[2], ARGV[3], ARGV[4],
  ARGV[5], ARGV[6]
local origin = { actor = ARGV[8], key = ARGV[9], request = ARGV[10], trace = ARGV[11], correlation = ARGV[7] }
local first_detail = 12

local tag = keys.tag_of(bulk)

local kept = redis.call('HGET', bulk, 'rs')
if kept then
  return { 'ENDED', 'replay', kept }
end
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
redis.call('HSET', bulk, 'fp', fingerprint, 'rs', response)
redis.call('PEXPIRE', bulk, keep_ms)
audit_log.append_audit(tag, operation, 200, owner, resource_type, '*', origin, { unpack(ARGV, first_detail) })
return { 'ENDED', 'fresh', response }
