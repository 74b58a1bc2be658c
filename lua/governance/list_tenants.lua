#!lua flags=no-writes
-- list_tenants: the tenants of one partition in the order of creation, without free-text fields, in bounded pages.
--
-- KEYS[1]   tenant_index     sorted set of the partition's tenants
-- ARGV[1]   after            the tenant at which the previous run ended, or empty
-- ARGV[2]   limit            records per run, at least 1
-- RETURNS   now_ms next_tenant? next_member? records(text_count record{})*
-- BOUND     limit records or 256 KiB of them, without free-text fields
-- EMITS     nothing
-- @include  keys, listing, time
--
-- The next run starts after next_tenant and next_member. Both are empty at the end.
local tenant_index = KEYS[1]
local after, limit = ARGV[1], tonumber(ARGV[2])

local tag = keys.tag_of(tenant_index)

local reply, bytes = { time.ms_text(time.now_ms()), '', '' }, 0
for number, tenant in ipairs(listing.members_or_index(listing.members_after, tenant_index, after, limit)) do
  bytes = bytes + listing.append_record(reply, keys.tenant(tag, tenant), 'tenant', { 'tenant_id', tenant })
  if number == limit or bytes >= listing.RUN_BYTES then
    reply[2], reply[3] = tenant, tenant
    break
  end
end
return reply
