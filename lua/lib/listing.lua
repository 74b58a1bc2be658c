-- listing: the records behind a partition's tenants, a bounded run at a time, for lists that no ledger decision depends on.
-- @include keys, now_ms
--
-- A reply is: now_ms, the tenant and the member after which the next run goes on (both empty at the end), and then each
-- record as the number of its fields and values, followed by these.

-- At most `limit` members that stand after `last`, or from the start when `last` is empty.
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

-- Likewise in an index whose members may go while it is walked: all its scores are 0, so a name that is gone has its place.
local function members_after_name(index, last, limit)
  return redis.call('ZRANGEBYLEX', index, last == '' and '-' or '(' .. last, '+', 'LIMIT', 0, limit)
end

-- Puts a record behind the reply, with some fields that its key tells.
local function append_record(reply, key, extra)
  local fields = redis.call('HGETALL', key)
  if #fields == 0 then
    error('an index names a record that is gone: ' .. key)
  end
  reply[#reply + 1] = tostring(#fields + #extra)
  for _, list in ipairs({ fields, extra }) do
    for i = 1, #list do
      reply[#reply + 1] = list[i]
    end
  end
end

-- Goes through the members of each tenant's index, or of one tenant's when `only` is not empty. A step to the next tenant
-- counts as much as a record, so that many tenants without members cannot make a run long. `walk` is members_after unless given.
local function list_owned(tenant_index, only, tenant, last, limit, index_of, append, walk)
  local tag = tag_of_key(tenant_index)
  local reply = { ms_text(now_ms()), '', '' }
  if tenant == '' then
    tenant = only ~= '' and only or redis.call('ZRANGE', tenant_index, 0, 0)[1]
  end
  while tenant do
    local members = (walk or members_after)(index_of(tag, tenant), last, limit)
    for _, member in ipairs(members) do
      append(reply, tag, member)
    end
    limit = limit - #members
    if limit == 0 then
      reply[2], reply[3] = tenant, members[#members]
      return reply
    end
    tenant = only == '' and members_after(tenant_index, tenant, 1)[1] or nil
    last = ''
    limit = limit - 1
    if tenant and limit == 0 then
      reply[2] = tenant
      return reply
    end
  end
  return reply
end
