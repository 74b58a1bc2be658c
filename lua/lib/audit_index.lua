-- audit_index: where the rows of an audit log are found without a walk through all of them.
-- @include keys
--
-- Each log has indexes, streams with the entry ids of its rows: `t:<tenant>` has the rows of one tenant or sentinel; `q`, `x` and `r`
-- have those of request ids, trace ids and resource ids, in 256 parts each. A value's part is named by the first two hex digits of
-- its SHA-1; field k of an entry holds the next eight, so that a reader passes over other values of the same part. A key of its own
-- for each request would cost more memory than the row. The twin of src/governance/audit-log/audit-source.ts.
local INDEXED_FIELDS = { rq = 'q', tr = 'x', ri = 'r' }
local TRACE_ID_LENGTH = 32

-- The tenant that a row is shown under: whose thing it is about, else the tenant that asked, else a sentinel.
local function audit_tenant(asked_by, owner)
  if owner and owner ~= '__system__' then
    return owner
  end
  return asked_by == '__system__' and '__admin__' or asked_by
end

-- The indexes of one row, as a flat list of keys and values of the field k.
local function audit_indexes(tag, log_name, fields)
  local indexes, asked_by, owner = {}, nil, nil
  local function put(index, digest)
    indexes[#indexes + 1] = audit_index_key(tag, log_name, index)
    indexes[#indexes + 1] = digest
  end
  for i = 1, #fields, 2 do
    local name, value = fields[i], fields[i + 1]
    if name == 'tn' then
      asked_by = value
    elseif name == 'ow' then
      owner = value
    elseif INDEXED_FIELDS[name] then
      local digest = redis.sha1hex(name == 'tr' and string.sub(value, 1, TRACE_ID_LENGTH) or value)
      put(INDEXED_FIELDS[name] .. string.sub(digest, 1, 2), string.sub(digest, 3, 10))
    end
  end
  local tenant = audit_tenant(asked_by, owner)
  if tenant then
    put('t:' .. tenant, '')
  end
  return indexes
end

-- Appends one row and returns its entry id. A damaged index does not end the script: the row itself is written.
local function append_audit_row(tag, log_name, log, fields)
  local entry_id = redis.call('XADD', log, '*', unpack(fields))
  local indexes = audit_indexes(tag, log_name, fields)
  for i = 1, #indexes, 2 do
    redis.pcall('XADD', indexes[i], entry_id, 'k', indexes[i + 1])
  end
  return entry_id
end

-- Removes the oldest rows, which the caller has read, from a log and its indexes. `kept` is the first entry id that stays.
local function remove_audit_rows(tag, log_name, log, rows, kept)
  local indexes = {}
  for _, row in ipairs(rows) do
    local found = audit_indexes(tag, log_name, row[2])
    for i = 1, #found, 2 do
      indexes[found[i]] = true
    end
  end
  local removed = redis.call('XTRIM', log, 'MINID', kept)
  for index in pairs(indexes) do
    if type(redis.pcall('XTRIM', index, 'MINID', kept)) == 'number' and redis.call('XLEN', index) == 0 then
      redis.call('DEL', index)
    end
  end
  return removed
end
