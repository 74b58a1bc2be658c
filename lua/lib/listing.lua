-- listing: the records of a partition's tenants, a bounded run at a time, for lists that no ledger decision depends on.
-- @include keys, time
--
-- A reply is: now_ms, the tenant and the member after which the next run continues (both empty at the end), and then
-- each record as the number of its fields and values, followed by these.

-- At most `limit` members after `last`, or from the start if `last` is empty.
local function members_after(index, last, limit)
  local from = 0
  if last ~= '' then
    local rank = redis.call('ZRANK', index, last)
    if not rank then
      error('the index ' .. index .. ' has lost its member ' .. last)
    end
    from = rank + 1
  end
  return redis.call('ZRANGE', index, from, from + limit - 1)
end

-- The same for an index whose members may be removed during the walk. All its scores are 0, so a removed name still has
-- a position.
local function members_after_name(index, last, limit)
  return redis.call('ZRANGEBYLEX', index, last == '' and '-' or '(' .. last, '+', 'LIMIT', 0, limit)
end

-- The same from the end of such an index towards its start.
local function members_before_name(index, last, limit)
  return redis.call('ZREVRANGEBYLEX', index, last == '' and '+' or '(' .. last, '-', 'LIMIT', 0, limit)
end

-- What one of these walks finds. An index of another type counts as one damaged record with its own name, because lists
-- name what they leave out, and the indexes of other tenants are not damaged.
local function members_or_index(walk, index, last, limit)
  local is_walked, members = pcall(walk, index, last, limit)
  if is_walked then
    return members
  end
  if redis.call('TYPE', index).ok == 'zset' then
    error(members, 0)
  end
  return last == index and {} or { index }
end

-- A record may have a megabyte of free text, and a list reads every record. So lists leave these texts out, and
-- lua/governance/read_texts.lua reads them for the records that are returned. The rest of a record is a few kilobytes,
-- and a run ends early after RUN_BYTES.
local LIST_TEXTS = {
  tenant = { 'metadata' },
  api_key = { 'description', 'metadata' },
  budget = { 'metadata', 'boundaries' },
  budget_template = { 'boundaries', 'window_plans' },
  policy = { 'description', 'caps', 'rules' },
  webhook = { 'ds', 'th', 'md', 'hd' },
  operator = {},
}
local RUN_BYTES = 262144
local SHORT_BYTES = 1024

-- The names and values of a record without its free texts.
local function without_texts(key, texts)
  local long, is_text = 0, {}
  for _, name in ipairs(texts) do
    is_text[name] = true
    long = long + redis.call('HSTRLEN', key, name)
  end
  local flat = {}
  if long <= SHORT_BYTES then
    local all = redis.call('HGETALL', key)
    for i = 1, #all, 2 do
      if not is_text[all[i]] then
        flat[#flat + 1], flat[#flat + 2] = all[i], all[i + 1]
      end
    end
    return flat
  end
  local names = {}
  for _, name in ipairs(redis.call('HKEYS', key)) do
    if not is_text[name] then
      names[#names + 1] = name
    end
  end
  local values = redis.call('HMGET', key, unpack(names))
  for i = 1, #names do
    flat[2 * i - 1], flat[2 * i] = names[i], values[i]
  end
  return flat
end

-- Appends a record to the reply, with the `extra` fields that its key implies. Returns their bytes. A record that is
-- gone or of another type has only the extra fields, so that whoever reads the list can name it.
local function append_record(reply, key, kind, extra)
  local is_hash, fields = pcall(without_texts, key, LIST_TEXTS[kind])
  fields = is_hash and fields or {}
  local bytes = 0
  reply[#reply + 1] = tostring(#fields + #extra)
  for _, list in ipairs({ fields, extra }) do
    for i = 1, #list do
      reply[#reply + 1] = list[i]
      bytes = bytes + #list[i]
    end
  end
  return bytes
end

-- Walks the members of each tenant's index, or of one tenant's if `only` is not empty. A step to the next tenant counts
-- as much as a record, so that many tenants without members cannot make a run long. `append` appends a member's record
-- to the reply and returns its bytes; `walk` is members_after by default.
local function list_owned(tenant_index, only, tenant, last, limit, index_of, append, walk)
  local tag = keys.tag_of(tenant_index)
  local reply, bytes = { time.ms_text(time.now_ms()), '', '' }, 0
  if tenant == '' then
    tenant = only ~= '' and only or members_or_index(members_after, tenant_index, '', 1)[1]
  end
  while tenant do
    local index = tenant == tenant_index and tenant_index or index_of(tag, tenant)
    local members = members_or_index(walk or members_after, index, last, limit)
    for number, member in ipairs(members) do
      bytes = bytes + append(reply, tag, member)
      if number == limit or bytes >= RUN_BYTES then
        reply[2], reply[3] = tenant, member
        return reply
      end
    end
    limit = limit - #members
    tenant = only == '' and members_or_index(members_after, tenant_index, tenant, 1)[1] or nil
    last = ''
    limit = limit - 1
    if tenant and limit == 0 then
      reply[2] = tenant
      return reply
    end
  end
  return reply
end

return {
  LIST_TEXTS = LIST_TEXTS, RUN_BYTES = RUN_BYTES, append_record = append_record, list_owned = list_owned,
  members_after = members_after, members_after_name = members_after_name, members_before_name = members_before_name,
  members_or_index = members_or_index,
}
