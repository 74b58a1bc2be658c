-- audit_index: indexes that find the rows of an audit log without a scan.
-- @include archived, keys, time
--
-- Each log has indexes by tenant (t), request id (q), trace id (x) and resource id (r): sorted sets of
-- `<digest><ms>-<sequence>`, with all scores 0, so the rows of one value are adjacent and in the order of time. The
-- digest is the first eight hex digits of the value's SHA-1. Two values may share a digest, so readers check the rows.
-- Each index is split into 64 sets by the digest's first two digits. They stay small enough for Redis' compact encoding
-- for long: a stream costs 4 KB even with one entry, and a key per value costs more than the row.
-- src/audit/audit-log/audit-log-rows.ts has to match.
local INDEXED_FIELDS = { rq = 'q', tr = 'x', ri = 'r' }
local INDEX_PARTS = 64
local TRACE_ID_LENGTH = 32

-- The tenant that a row is listed under: the owner of the resource, else the tenant that made the request, else a
-- sentinel.
local function audit_tenant(asked_by, owner)
  if owner and owner ~= '__system__' then
    return owner
  end
  return asked_by == '__system__' and '__admin__' or asked_by
end

-- An entry id in fixed width, so that it sorts as text.
local function audit_place(ms, sequence)
  return string.format('%015d-%06d', tonumber(ms), tonumber(sequence))
end

-- The digest of a value, and the part of an index that has it.
local function index_of(tag, log_name, kind, value)
  local digest = string.sub(redis.sha1hex(value), 1, 8)
  local part = string.format('%02x', tonumber(string.sub(digest, 1, 2), 16) % INDEX_PARTS)
  return digest, keys.audit_index(tag, log_name, kind .. part)
end

-- The index entries of one row, as a flat list of keys and members, and its tenant.
local function audit_indexes(tag, log_name, entry_id, fields)
  local indexes, asked_by, owner = {}, nil, nil
  local place = audit_place(string.match(entry_id, '^(%d+)-(%d+)$'))
  local function put(kind, value)
    local digest, index = index_of(tag, log_name, kind, value)
    indexes[#indexes + 1] = index
    indexes[#indexes + 1] = digest .. place
  end
  for i = 1, #fields, 2 do
    local name, value = fields[i], fields[i + 1]
    if name == 'tn' then
      asked_by = value
    elseif name == 'ow' then
      owner = value
    elseif INDEXED_FIELDS[name] then
      put(INDEXED_FIELDS[name], name == 'tr' and string.sub(value, 1, TRACE_ID_LENGTH) or value)
    end
  end
  local tenant = audit_tenant(asked_by, owner)
  if tenant then
    put('t', tenant)
  end
  return indexes, tenant
end

-- Appends one row and returns its tenant. A damaged index does not end the script: the row itself is written.
local function append_audit_row(tag, log_name, log, fields)
  local entry_id = redis.call('XADD', log, time.entry_id(log), unpack(fields))
  local indexes, tenant = audit_indexes(tag, log_name, entry_id, fields)
  for i = 1, #indexes, 2 do
    redis.pcall('ZADD', indexes[i], 0, indexes[i + 1])
  end
  return tenant
end

local function unindex_row(tag, log_name, row)
  local indexes = audit_indexes(tag, log_name, row[1], row[2])
  for i = 1, #indexes, 2 do
    redis.pcall('ZREM', indexes[i], indexes[i + 1])
  end
end

-- The entry id in a member of an index.
local function entry_of(member, digest)
  local ms, sequence = string.match(string.sub(member, #digest + 1), '^(%d+)-(%d+)$')
  return string.format('%d-%d', tonumber(ms), tonumber(sequence))
end

-- Removes the oldest rows from a log and its indexes. The caller has read these rows. `kept` is the first entry id that
-- stays.
local function remove_audit_rows(tag, log_name, log, rows, kept)
  -- Of these logs, only the lasting one is archived.
  if log_name == 'audit' and #rows > 0 then
    archived.note_removed(tag, log_name, rows[#rows][1])
  end
  local removed = redis.call('XTRIM', log, 'MINID', kept)
  for _, row in ipairs(rows) do
    unindex_row(tag, log_name, row)
  end
  return removed
end

-- Removes the oldest rows of a tenant beyond `most`, at most `limit` of them. Returns how many.
local function remove_beyond(tag, log_name, log, tenant, most, limit)
  local digest, index = index_of(tag, log_name, 't', tenant)
  local first, last = '[' .. digest, '(' .. digest .. ':'
  local count = redis.pcall('ZLEXCOUNT', index, first, last)
  local excess = type(count) == 'number' and count - most or 0
  if excess <= 0 then
    return 0
  end
  local members = redis.call('ZRANGEBYLEX', index, first, last, 'LIMIT', 0, math.min(excess, limit))
  for _, member in ipairs(members) do
    local entry_id = entry_of(member, digest)
    local row = redis.call('XRANGE', log, entry_id, entry_id)[1]
    if row then
      redis.call('XDEL', log, entry_id)
      unindex_row(tag, log_name, row)
    end
    redis.call('ZREM', index, member)
  end
  return #members
end

return {
  TRACE_ID_LENGTH = TRACE_ID_LENGTH, append_audit_row = append_audit_row, audit_place = audit_place,
  entry_of = entry_of, remove_audit_rows = remove_audit_rows, remove_beyond = remove_beyond,
}
