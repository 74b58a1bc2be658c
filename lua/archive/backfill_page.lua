#!lua flags=no-writes
-- backfill_page: read reservations that ended before the archive began, a few of a tenant's at a time, in the order of their creation.
--
-- KEYS[1]   tenant_index   sorted set of the partition's tenants
-- ARGV[1]   tenant         where the previous page ended, or empty to start with the first
-- ARGV[2]   walked_ms      created_at_ms of the entry at which it ended, or empty
-- ARGV[3]   walked_id      its reservation
-- ARGV[4]   examine        entries per run; a step to the next tenant counts as one
-- ARGV[5]   with_metadata  0 leaves out the metadata
-- RETURNS   READ tenant? walked_ms:text? walked_id? entries(reservation_id field_count fields{})*
-- BOUND     examine entries, 256 KiB of their records
-- EMITS     nothing
-- @include  charge_fields, field, index_walk, journal, keys, stream_walk
--
-- tenant is empty at the end. The fields are those of an entry that the journal would have, with what the record says. What only the entry knew
-- is missing: the debt, the actual amount of a capped charge, the request and the trace.
local tenant_index = KEYS[1]
local tenant, walked_ms, walked_id = ARGV[1], ARGV[2], ARGV[3]
local examine, with_metadata = tonumber(ARGV[4]), ARGV[5] == '1'

local tag = keys.tag_of(tenant_index)
local reply, steps, bytes = { 'READ', '', '', '' }, 0, 0

local function tenant_after(name)
  local rank = name == '' and -1 or redis.call('ZRANK', tenant_index, name)
  return rank and redis.call('ZRANGE', tenant_index, rank + 1, rank + 1)[1]
end

local function append(reservation_id)
  local record = redis.pcall('HMGET', keys.reservation(tag, reservation_id), field.state, field.charge_on_expiry)
  local state = not record.err and record[1]
  if not state or state == 'ACTIVE' then
    return
  end
  local fields, size = charge_fields.of_ended(tag, reservation_id, with_metadata)
  fields[#fields + 1] = 'id'
  fields[#fields + 1] = reservation_id
  if state ~= 'COMMITTED' then
    fields[#fields + 1] = field.charged
    fields[#fields + 1] = journal.charge_of_end(state, { [field.charge_on_expiry] = record[2] or nil }) or '0'
  end
  reply[#reply + 1] = reservation_id
  reply[#reply + 1] = tostring(#fields / 2)
  for i = 1, #fields do
    reply[#reply + 1] = fields[i]
  end
  bytes = bytes + size
end

tenant = tenant == '' and tenant_after('') or tenant
while tenant and tenant ~= '' and steps < examine and bytes < stream_walk.STREAM_BYTES do
  local wanted = math.min(stream_walk.STREAM_PORTION, examine - steps)
  local index = keys.reservation_index(tag, tenant)
  local is_index = redis.call('TYPE', index).ok == 'zset'
  local found = is_index and index_walk.index_stretch(index, false, '-inf', '+inf', walked_ms, walked_id, wanted) or {}
  for i = 1, #found, 2 do
    walked_id, walked_ms = found[i], found[i + 1]
    append(walked_id)
  end
  steps = steps + #found / 2
  if #found / 2 < wanted then
    tenant, walked_ms, walked_id = tenant_after(tenant), '', ''
    steps = steps + 1
  end
end
reply[2], reply[3], reply[4] = tenant or '', walked_ms, walked_id
return reply
