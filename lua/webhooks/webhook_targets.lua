#!lua flags=no-writes
-- webhook_targets: the active subscriptions of some owners for the dispatcher: all of them, or those changed since a
-- revision.
--
-- KEYS[1]   webhook_revision string, changes with every subscription of the partition
-- ARGV[...] for each owner: the owner, the revision at which its list was read, or empty, and the id after which a
--           reading of the whole list continues, or empty
-- RETURNS   revision owners(form:ALL|CHANGED next? target_count targets(id text_count record{})*)*
-- BOUND     100 owners, 100 subscriptions or 256 KiB of them
-- EMITS     nothing
-- @include  keys, read_target, webhook_record
--
-- The reply covers the first of the given owners, at least one.
-- next is empty if the list is complete. Otherwise it is the id after which the whole list continues, or the revision
-- up to which the changes were returned. A subscription that is no longer active has no fields in a list of changes,
-- and is left out of a whole list.
local webhook_revision = KEYS[1]
local OWNERS, SUBSCRIPTIONS, BYTES = 100, 100, 262144

local tag = keys.tag_of(webhook_revision)
local revision = redis.call('GET', webhook_revision) or '0'

local reply, left, bytes = { revision }, SUBSCRIPTIONS, 0
local count

-- A key that is not a hash counts as no subscription, because failing on it would block all others.
local function append(id, is_change)
  local fields, size = read_target(keys.webhook(tag, id))
  local is_active = fields and fields[1] == 'st' and fields[2] == 'ACTIVE'
  if is_active or is_change then
    count = count + 1
    reply[#reply + 1] = id
    reply[#reply + 1] = tostring(is_active and #fields or 0)
    for i = 1, is_active and #fields or 0 do
      reply[#reply + 1] = fields[i]
    end
    bytes = bytes + (is_active and size or 0)
  end
  left = left - 1
end

-- Whether all changes since the revision are still known.
local function knows_changes(owner, known)
  if known == '' or tonumber(known) > tonumber(revision) then
    return false
  end
  if known == revision then
    return true
  end
  local changes = keys.webhook_changes(tag, owner)
  if redis.call('ZCARD', changes) < webhook_record.CHANGES_KEPT then
    return true
  end
  return tonumber(known) >= tonumber(redis.call('ZRANGE', changes, 0, 0, 'WITHSCORES')[2])
end

-- Returns the value of next.
local function append_changes(owner, known)
  local page = redis.call('ZRANGEBYSCORE', keys.webhook_changes(tag, owner), '(' .. known, '+inf', 'WITHSCORES',
    'LIMIT', 0, left + 1)
  for i = 1, #page, 2 do
    if left == 0 or bytes >= BYTES then
      return i == 1 and known or page[i - 1]
    end
    append(page[i], true)
  end
  return ''
end

local function append_all(owner, last)
  local ids = redis.call('ZRANGEBYLEX', keys.webhook_index(tag, owner), last == '' and '-' or '(' .. last, '+', 'LIMIT',
    0, left + 1)
  for _, id in ipairs(ids) do
    if left == 0 or bytes >= BYTES then
      return last
    end
    append(id, false)
    last = id
  end
  return ''
end

for i = 1, math.min(#ARGV, 3 * OWNERS), 3 do
  local owner, known, last = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if left == 0 or bytes >= BYTES then
    break
  end
  local head = #reply + 1
  count = 0
  local is_known = last == '' and knows_changes(owner, known)
  reply[head], reply[head + 1], reply[head + 2] = is_known and 'CHANGED' or 'ALL', '', ''
  reply[head + 1] = is_known and append_changes(owner, known) or not is_known and append_all(owner, last) or ''
  reply[head + 2] = tostring(count)
end
return reply
