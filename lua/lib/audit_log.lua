-- audit_log: appends the audit row of a request's own change.
-- @include audit_row, keys
--
-- The script that makes a change appends its row in the same run, so neither exists without the other.
-- lua/lib/audit_row.lua describes rows and origins.

-- The request whose row this run has written, or empty. Scripts that may append rows return it at the end of each
-- reply, so that the edge knows which requests still need a row: see with_audited_request.
local audited_request = ''

local function append_audit(tag, operation, status, tenant, resource_type, resource_id, origin, details)
  audit_row.put_audit_row(tag, operation, status, tenant, resource_type, resource_id, origin, details)
  audited_request = origin.request or ''
end

-- Ends the script if the log is not a stream. Scripts that append rows call this before their first write: a later
-- error would leave a change without its row.
local function require_audit_log(tag)
  redis.call('XLEN', keys.audit_log(tag))
end

-- Runs a script that may append rows. scripts/lua/library.ts lets it run them; src/redis/scripts.ts removes the last
-- text of the reply.
local function with_audited_request(run, key_list, arguments)
  audited_request = ''
  local reply = run(key_list, arguments)
  reply[#reply + 1] = audited_request
  return reply
end

return {
  append_audit = append_audit, require_audit_log = require_audit_log, with_audited_request = with_audited_request,
}
