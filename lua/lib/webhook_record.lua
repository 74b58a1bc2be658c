-- webhook_record: the record of a subscription, and what has to follow each change of it.
-- @include keys, tenant_state, usual_marks
--
-- A subscription is a hash in the partition of its owner, a tenant or __system__. Fields: tn owner, nm name, ds
-- description, ur URL, et event types and ec event categories (comma lists, possibly empty), sf scope filter, th
-- thresholds (JSON), tu the utilizations among them (comma list), ta amounts that are thresholds, too (comma list of
-- UNIT:amount), eg 1 if an answer of 410 ends it, pf what members of the payload must equal (JSON), rp
-- max_retries,initial_delay_ms,multiplier,max_delay_ms, df disable_after_failures, st ACTIVE, PAUSED or DISABLED, hd
-- headers (sealed JSON), hn their names (comma list), se signing secret (sealed), sp the previous secret (sealed) and
-- su the end of its validity (ms), ca and ua creation and last change (ms), md metadata (JSON), cf consecutive
-- failures, lt, ls, lf last trigger, success and failure (ms), ld the delivery last counted as a failure, um the
-- utilizations and amounts counted for this subscription (comma list), sw why, when (ms) and by which key it was last
-- stopped. Fields that do not apply are unset.
local SYSTEM_OWNER = '__system__'
local WEBHOOK_STATUS = { ACTIVE = true, PAUSED = true, DISABLED = true }
-- WEBHOOK SUBSCRIPTION INVARIANT 2 of cycles-governance-admin-v0.1.25: what a tenant may subscribe to.
local TENANT_CATEGORY = { budget = true, reservation = true, tenant = true }
-- Every reserve of the owner compares the utilization of its budgets with each of them.
local MARKS_PER_OWNER = 50
-- More than an owner has subscriptions, so that changes of some do not displace those of others at once.
local CHANGES_KEPT = 2000
local CHANGES_KEPT_MS = '86400000'

-- Returns the record as a table of its fields, or nil if it does not exist. An invalid record ends the script.
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

-- What is wrong with a subscription's selectors, as a reply, or nil. Checks both invariants, for every caller and every
-- path.
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

local function is_mark(text)
  return tonumber(text) or string.find(text, '^[A-Z_]+:%d+$')
end

-- The utilizations and amounts that a subscription asks for beyond the default ones, as a set.
local function wanted_marks(record)
  local wanted = {}
  local listens = record.st == 'ACTIVE' and record.et and record.ec
    and (lists(record.et, 'budget.threshold_crossed') or lists(record.ec, 'budget'))
  for text in string.gmatch(listens and (record.tu or '') .. ',' .. (record.ta or '') or '', '[^,]+') do
    if is_mark(text) and not lists(usual_marks.TEXT, text) then
      wanted[text] = true
    end
  end
  return wanted
end

-- What is wrong with the utilizations of a changed subscription, as a reply, or nil. All subscriptions of an owner
-- share MARKS_PER_OWNER distinct ones.
local function marks_refusal(tag, owner, record)
  if owner == SYSTEM_OWNER then
    return nil
  end
  local marks, added = keys.webhook_marks(tag, owner), 0
  for text in pairs(wanted_marks(record)) do
    added = added + 1 - redis.call('HEXISTS', marks, text)
  end
  return added > 0 and redis.call('HLEN', marks) + added > MARKS_PER_OWNER
    and { 'TOO_MANY_MARKS', tostring(MARKS_PER_OWNER) } or nil
end

-- Adds what a subscription asks for to its owner's counts, and subtracts what was counted for it before. Returns
-- whether anything changed.
local function count_marks(tag, owner, key, record)
  local marks, wanted, counted, names, moved = keys.webhook_marks(tag, owner), wanted_marks(record), {}, {}, false
  for text in string.gmatch(record.um or '', '[^,]+') do
    counted[text] = true
    if not wanted[text] then
      moved = true
      if redis.call('HINCRBY', marks, text, -1) <= 0 then
        redis.call('HDEL', marks, text)
      end
    end
  end
  for text in pairs(wanted) do
    names[#names + 1] = text
    if not counted[text] then
      moved = true
      redis.call('HINCRBY', marks, text, 1)
    end
  end
  if moved and #names == 0 then
    redis.call('HDEL', key, 'um')
  elseif moved then
    table.sort(names)
    redis.call('HSET', key, 'um', table.concat(names, ','))
  end
  return moved
end

-- By utilization, then amounts by unit and amount: the order of the events of one change.
local function comes_before(a, b)
  local first, second = tonumber(a), tonumber(b)
  if first or second then
    return first and (not second or first < second) or false
  end
  local unit, amount = string.match(a, '^(.+):(%d+)$')
  local other_unit, other_amount = string.match(b, '^(.+):(%d+)$')
  if unit ~= other_unit then
    return unit < other_unit
  end
  return tonumber(amount) < tonumber(other_amount)
end

-- These marks and the default utilizations in order, or nil if there are only the default ones. `texts` are comma
-- lists.
local function asked_utilizations(texts)
  local known, wanted = {}, {}
  for text in string.gmatch(usual_marks.TEXT .. ',' .. texts, '[^,]+') do
    if is_mark(text) and not known[text] then
      known[text] = true
      wanted[#wanted + 1] = text
    end
  end
  table.sort(wanted, comes_before)
  local text = table.concat(wanted, ',')
  return text ~= usual_marks.TEXT and text or nil
end

-- The utilizations that a tenant's active subscriptions ask for, for a record that is made anew, or nil.
local function stored_utilizations(tag, owner)
  return asked_utilizations(table.concat(redis.call('HKEYS', keys.webhook_marks(tag, owner)), ','))
end

-- Stores with the tenant the utilizations that its active subscriptions ask for, after a change of one of them. Stores
-- nothing if these are the default ones, so that tenants without such subscriptions cost the ledger nothing.
local function write_utilizations(tag, owner, key, record)
  if owner == SYSTEM_OWNER then
    return
  end
  if count_marks(tag, owner, key, record) then
    tenant_state.set_derived(keys.tenant(tag, owner), 'th', stored_utilizations(tag, owner))
  end
end

-- Makes every dispatcher read a subscription again. The owner's changes are a sorted set: the subscriptions that
-- changed last, including deleted ones, with the revisions of their changes as scores.
local function note_webhook_change(tag, owner, subscription_id)
  local changes = keys.webhook_changes(tag, owner)
  redis.call('ZADD', changes, redis.call('INCR', keys.webhook_revision(tag)), subscription_id)
  if redis.call('ZCARD', changes) > CHANGES_KEPT then
    redis.call('ZPOPMIN', changes)
  end
  -- A dispatcher that has not read the list for so long reads all of it.
  redis.call('PEXPIRE', changes, CHANGES_KEPT_MS)
end

-- Ends the script if another key that a change of a subscription writes has the wrong type. Called before the first
-- write.
local function require_webhook_keys(tag, owner)
  redis.call('GET', keys.webhook_revision(tag))
  redis.call('ZCARD', keys.webhook_index(tag, owner))
  redis.call('ZCARD', keys.webhook_changes(tag, owner))
  redis.call('HLEN', keys.webhook_marks(tag, owner))
  redis.call('HLEN', keys.tenant(tag, owner))
end

-- Called after the writes of every change of a subscription. `record` is the changed record. For a deleted subscription
-- it has only the owner (tn) and what was counted for it (um).
local function webhooks_changed(tag, subscription_id, record)
  note_webhook_change(tag, record.tn, subscription_id)
  write_utilizations(tag, record.tn, keys.webhook(tag, subscription_id), record)
end

-- Why, when and by whom a subscription was paused or disabled, as its record keeps it.
local function stopped_by(reason, now, origin)
  return reason .. ' ' .. now .. ' ' .. (origin.key ~= '' and origin.key or origin.actor)
end

return {
  CHANGES_KEPT = CHANGES_KEPT, SYSTEM_OWNER = SYSTEM_OWNER, WEBHOOK_STATUS = WEBHOOK_STATUS,
  marks_refusal = marks_refusal, note_webhook_change = note_webhook_change, read_webhook = read_webhook,
  require_webhook_keys = require_webhook_keys, selector_refusal = selector_refusal,
  stopped_by = stopped_by, stored_utilizations = stored_utilizations, webhooks_changed = webhooks_changed,
}
