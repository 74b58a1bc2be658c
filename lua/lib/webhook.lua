-- webhook: a subscription's record, and what must follow each change of one.
-- @include keys
--
-- A subscription is a hash in the partition of its owner, a tenant or __system__. Fields: tn owner, nm name, ds description,
-- ur URL, et event types and ec event categories (comma lists, possibly empty), sf scope filter, th thresholds (JSON),
-- tu the utilizations among them (comma list), rp max_retries,initial_delay_ms,multiplier,max_delay_ms,
-- df disable_after_failures, st ACTIVE, PAUSED or DISABLED, hd headers (sealed JSON), hn their names (comma list),
-- se signing secret (sealed), sp the one before it (sealed) and su until when that one is valid (ms), ca and ua creation and
-- last change (ms), md metadata (JSON), cf consecutive failures, lt, ls, lf last trigger, success and failure (ms), ld the
-- delivery that was last counted as a failure. A field that does not apply is absent.
local SYSTEM_OWNER = '__system__'
local WEBHOOK_STATUS = { ACTIVE = true, PAUSED = true, DISABLED = true }
-- WEBHOOK SUBSCRIPTION INVARIANT 2 of cycles-governance-admin-v0.1.25: what the owner of an endpoint may see.
local TENANT_CATEGORY = { budget = true, reservation = true, tenant = true }
local DEFAULT_UTILIZATIONS = '0.8,0.95,1'

-- Returns the record as a table of its fields, or nil when there is none. One that cannot be trusted ends the script.
local function read_webhook(key)
  local record, stored = {}, redis.call('HGETALL', key)
  for i = 1, #stored, 2 do
    record[stored[i]] = stored[i + 1]
  end
  if not next(record) then
    return nil
  end
  if not record.tn or not record.et or not record.ec or not WEBHOOK_STATUS[record.st] then
    error('corrupt webhook record ' .. key)
  end
  return record
end

-- What is wrong with a subscription's selectors, as a reply, or nil: both invariants, whoever asks and by whatever path.
local function selector_refusal(owner, event_types, event_categories)
  if event_types == '' and event_categories == '' then
    return { 'NO_SELECTOR' }
  end
  if owner ~= SYSTEM_OWNER then
    for selector in string.gmatch(event_types .. ',' .. event_categories, '[^,]+') do
      if not TENANT_CATEGORY[string.match(selector, '^[^.]*')] then
        return { 'ADMIN_ONLY', selector }
      end
    end
  end
  return nil
end

local function lists(list, item)
  return string.find(',' .. list .. ',', ',' .. item .. ',', 1, true) ~= nil
end

-- Keeps with the tenant which utilizations its active subscriptions want told on top of the default ones. Nothing is kept
-- when these are all, so that tenants without such subscriptions cost the ledger nothing.
local function write_utilizations(tag, owner)
  if owner == SYSTEM_OWNER then
    return
  end
  local known, wanted = {}, {}
  local function want(texts)
    for text in string.gmatch(texts, '[^,]+') do
      local value = tonumber(text)
      if value and not known[value] then
        known[value] = true
        wanted[#wanted + 1] = text
      end
    end
  end
  want(DEFAULT_UTILIZATIONS)
  for _, id in ipairs(redis.call('ZRANGE', webhook_index_key(tag, owner), 0, -1)) do
    -- A damaged record asks for nothing: it must not stand in the way of changes to the others.
    local fields = redis.pcall('HMGET', webhook_key(tag, id), 'st', 'tu', 'et', 'ec')
    if fields[1] == 'ACTIVE' and fields[2] and fields[3] and fields[4] and (lists(fields[3], 'budget.threshold_crossed') or lists(fields[4], 'budget')) then
      want(fields[2])
    end
  end
  table.sort(wanted, function(a, b) return tonumber(a) < tonumber(b) end)
  local text = table.concat(wanted, ',')
  if text == DEFAULT_UTILIZATIONS then
    redis.call('HDEL', tenant_key(tag, owner), 'th')
  else
    redis.call('HSET', tenant_key(tag, owner), 'th', text)
  end
end

-- Has every dispatcher read the partition's subscriptions anew.
local function raise_webhook_revision(tag)
  redis.call('INCR', webhook_revision_key(tag))
end

-- Ends the script when a key that a change of a subscription writes beside the record is of another type. Called before the first write.
local function require_webhook_keys(tag, owner)
  redis.call('GET', webhook_revision_key(tag))
  redis.call('ZCARD', webhook_index_key(tag, owner))
  redis.call('HLEN', tenant_key(tag, owner))
end

-- What follows every change of a subscription, after its writes.
local function webhooks_changed(tag, owner)
  raise_webhook_revision(tag)
  write_utilizations(tag, owner)
end
