#!lua
-- reseal_webhook: replace sealed fields of a subscription by the same contents in a newer form.
--
-- KEYS[1]   webhook          hash
-- KEYS[2]   webhook_revision string, changes with every subscription of the partition
-- ARGV[...] field, known and resealed text in turn: se, sp or hd, the stored text that was opened, and its replacement
-- RETURNS   RESEALED | STALE
-- BOUND     three fields of one subscription
-- EMITS     nothing
-- @include  keys: tag_of_key, webhook_changes_state_key
-- @include  webhook: raise_webhook_revision
--
-- STALE: a concurrent request replaced one of the texts; the caller must read the record again. Nothing visible changes, so there is no
-- event and no audit row.
local webhook, webhook_revision = KEYS[1], KEYS[2]
local FIELDS_MOST = 3
local SEALED = { se = true, sp = true, hd = true }

if #ARGV == 0 or #ARGV > 3 * FIELDS_MOST or #ARGV % 3 ~= 0 then
  error('reseal_webhook takes one to three sealed fields')
end
for i = 1, #ARGV, 3 do
  if not SEALED[ARGV[i]] then
    error('reseal_webhook does not take the field ' .. ARGV[i])
  end
  if redis.call('HGET', webhook, ARGV[i]) ~= ARGV[i + 1] then
    return { 'STALE' }
  end
end
local tag = tag_of_key(webhook)
redis.call('GET', webhook_revision)
redis.call('HLEN', webhook_changes_state_key(tag))

-- Nothing is refused below this line.
for i = 1, #ARGV, 3 do
  redis.call('HSET', webhook, ARGV[i], ARGV[i + 2])
end
raise_webhook_revision(tag)
return { 'RESEALED' }
