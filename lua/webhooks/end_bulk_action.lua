#!lua flags=allow-oom
-- end_bulk_action: keep the response of an action on many things, with its one audit row. It carries allow-oom because the
-- things are changed already.
--
-- KEYS[1]   bulk             hash, the record of this action
-- ARGV[1]   response         JSON
-- ARGV[2]   operation        what the audit row calls it
-- ARGV[3]   resource_type
-- ARGV[4]   correlation_id
-- ARGV[5]   actor            admin
-- ARGV[6]   key_id           empty for an operator
-- ARGV[7]   request_id
-- ARGV[8]   trace            trace id and flags, then the sender: see lib/append_audit
-- ARGV[...] name and value pairs of the audit row's metadata
-- RETURNS   ENDED response
-- BOUND     one record
-- EMITS     nothing
-- @include  keys: tag_of_key
-- @include  append_audit: append_audit, require_audit_log
--
-- The response is the one that was kept first.
local bulk = KEYS[1]
local response, operation, resource_type = ARGV[1], ARGV[2], ARGV[3]
local origin = { actor = ARGV[5], key = ARGV[6], request = ARGV[7], trace = ARGV[8], correlation = ARGV[4] }
local first_detail = 9

local tag = tag_of_key(bulk)

local kept = redis.call('HGET', bulk, 'rs')
if kept then
  return { 'ENDED', kept }
end
require_audit_log(tag)

-- Nothing is refused below this line.
-- A record that lapsed meanwhile is not made again: it would stay for good.
if redis.call('EXISTS', bulk) == 1 then
  redis.call('HSET', bulk, 'rs', response)
end
append_audit(tag, operation, 200, '__system__', resource_type, '*', origin, { unpack(ARGV, first_detail) })
return { 'ENDED', response }
