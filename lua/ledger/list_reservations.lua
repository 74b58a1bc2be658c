#!lua flags=allow-oom
-- list_reservations: the tenant's reservations that match some conditions, in bounded pages of its reservation index.
-- An overdue hold is expired first, so that it is never listed as live. An index entry without a record is removed.
--
-- KEYS[1]   reservation_index  sorted set of the tenant's reservations, score = created_at_ms
-- ARGV[1]   tenant_id
-- ARGV[2]   walk_dir         asc or desc: the direction through the index
-- ARGV[3]   from_ms          created_at_ms, inclusive, or -inf
-- ARGV[4]   to_ms            created_at_ms, inclusive, or +inf
-- ARGV[5]   walked_ms        where the previous run ended: created_at_ms, or empty to start
-- ARGV[6]   walked_id        its reservation
-- ARGV[7]   examine          maximum entries to examine
-- ARGV[8]   limit            maximum rows to return
-- ARGV[9]   retention_ms     how long the records of holds that this run expires are kept
-- ARGV[10]  request_id
-- ARGV[11]  trace            trace id and flags
-- ARGV[...] the conditions, as name and value pairs: status, idempotency_key; workspace, app, workflow, agent, toolset
--           (lower case); expires_from, expires_to, finalized_from, finalized_to (ms, inclusive); and, for an order
--           other than the index's:
--           sort_by, sort_dir, after_value with after_id, before_value with before_id (both exclusive);
--           a scope_path among these values is in tree order (scope_tree)
-- RETURNS   now_ms walked_ms:text? walked_id? outcome_count outcomes(word detail? second_detail?)* unreadable_count
--             unreadable(reservation_id reason)* rows(id field.ROW)*
-- BOUND     examine entries, limit rows, 256 KiB of rows, 25 expiries; long metadata is not read
-- EMITS     those of the expiry transition
-- @include  damage, expiry, field, hold_form, hold_record, idempotency_record, index_walk, int64, keys, lists,
--           owned_counts, scope_tree, time
--
-- walked_ms is empty at the end of the index.
-- Rows come in the order of the index. For another order, the caller has to walk the whole index: it passes the two
-- rows between which a page may still change, and gets only the rows between them. A damaged record is returned with
-- what is known of it (lua/lib/damage.lua), and also listed as unreadable. A key that is not a record is only listed as
-- unreadable.
local index = KEYS[1]
local tenant_id, walk_dir, from_ms, to_ms, walked_ms, walked_id = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local examine, limit, retention_ms = tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9]
local origin = { actor = 'system', request = ARGV[10], trace = ARGV[11] }
local conditions, first_condition = {}, 12
for i = first_condition, #ARGV, 2 do
  conditions[ARGV[i]] = ARGV[i + 1]
end
local LEVELS = { 'workspace', 'app', 'workflow', 'agent', 'toolset' }
-- Fields are never stored empty.
local ROW_FIELDS = field.ROW
local FINALIZED_AT, CHARGED
for i, name in ipairs(ROW_FIELDS) do
  FINALIZED_AT = name == field.ended_at and i or FINALIZED_AT
  CHARGED = name == field.charged and i or CHARGED
end
-- The limits that end a run early: each row may have kilobytes of dimensions, and each expiry writes several budgets.
local MOST_BYTES, MOST_EXPIRED = 262144, 25

local tag = keys.tag_of(index)
local now = time.now_ms()
local outcomes, unreadable, rows = {}, {}, {}
local row_count, row_bytes = 0, 0

local function note_damage(reservation_id, reason)
  unreadable[#unreadable + 1] = reservation_id
  unreadable[#unreadable + 1] = reason
end

-- The record, or nil if it no longer exists or is not a record.
local function read_record(reservation_id)
  local is_record, hold =
    pcall(hold_record.load_hold, keys.reservation(tag, reservation_id), field.created_at, field.idempotency_key,
    field.idempotency_uuid)
  if not is_record then
    note_damage(reservation_id, 'NOT_A_RECORD')
    return nil
  end
  if not hold then
    owned_counts.forget_texts(tag, tenant_id, 1, redis.call('ZCARD', index))
    redis.call('ZREM', index, reservation_id)
  end
  return hold
end

local function append_outcome(outcome)
  for part = 1, 3 do
    outcomes[#outcomes + 1] = outcome[part]
  end
end

-- Reservations in quarantine await an operator and are listed as they are.
local function expire_overdue(reservation_id, hold)
  if redis.call('HEXISTS', keys.quarantine(tag), reservation_id) == 1 then
    return
  end
  local outcome = expiry.expire_hold(tag, reservation_id, hold, now, retention_ms, origin)
  append_outcome(outcome)
  if outcome[1] ~= 'QUARANTINED' then
    hold.state, hold.fields = 'EXPIRED', nil
  end
end

-- What is known of a damaged record. A live one that cannot be settled is quarantined.
local function known_of_damaged(reservation_id, hold, defect, created_at)
  local known = damage.known_hold(hold.key,
    damage.known_fields(hold.key, hold.fields or hold_form.short_fields(hold.key), tenant_id, created_at))
  note_damage(reservation_id, defect)
  if known.state == 'ACTIVE' and defect ~= 'INVALID_CREATION' then
    local outcome = expiry.quarantine(tag, reservation_id, hold.key, defect, origin, tenant_id, true)
    if not outcome[4] then
      append_outcome(outcome)
    end
  end
  return known
end

local function within(ms, from, to)
  return (not from or ms >= tonumber(from)) and (not to or ms <= tonumber(to))
end

-- Checks the conditions that most rows of a large list fail, before the row's other fields are read.
local function satisfies(hold)
  if conditions.status and hold.state ~= conditions.status then
    return false
  end
  if conditions.idempotency_key and hold_record.key_of_hold(hold) ~= conditions.idempotency_key then
    return false
  end
  for i, level in ipairs(LEVELS) do
    local value = hold.levels and hold.levels[i]
    if conditions[level] and (not value or string.lower(value) ~= conditions[level]) then
      return false
    end
  end
  return true
end

local function sort_value(reservation_id, hold)
  local by = conditions.sort_by
  if by == 'reserved' then
    return hold.amount
  elseif by == 'expires_at_ms' then
    return time.ms_text(hold.expires_at)
  elseif by == 'scope_path' then
    return scope_tree.in_tree_order(hold.scopes[#hold.scopes])
  elseif by == 'status' then
    return hold.state
  end
  return by == 'reservation_id' and reservation_id or ''
end

-- True if the first row comes before the second: by value in the requested direction, then by ascending id.
local function stands_before(value, id, other_value, other_id)
  if value == other_value then
    return index_walk.bytes_less(id, other_id)
  end
  local less = (conditions.sort_by == 'reserved' or conditions.sort_by == 'expires_at_ms') and int64.less
    or index_walk.bytes_less
  return less(value, other_value) == (conditions.sort_dir == 'asc')
end

local function is_wanted(reservation_id, hold)
  if not conditions.sort_by then
    return true
  end
  local value = sort_value(reservation_id, hold)
  return (not conditions.after_id or stands_before(conditions.after_value, conditions.after_id, value, reservation_id))
    and (not conditions.before_id
    or stands_before(value, reservation_id, conditions.before_value, conditions.before_id))
end

local function append_row(reservation_id, hold)
  local values, fields = {}, hold.fields or hold_form.short_fields(hold.key)
  for i, name in ipairs(ROW_FIELDS) do
    values[i] = fields[name]
  end
  local finalized_at = hold.state ~= 'EXPIRED' and hold_record.whole_number(values[FINALIZED_AT]) or nil
  local settled, charged = hold.state == 'COMMITTED' or hold.state == 'RELEASED', int64.is_amount(values[CHARGED])
  if settled and not finalized_at or hold.state == 'COMMITTED' and not charged then
    note_damage(reservation_id, 'INVALID_END')
    values[FINALIZED_AT], values[CHARGED] = finalized_at and values[FINALIZED_AT], charged and values[CHARGED]
  end
  if conditions.finalized_from or conditions.finalized_to then
    if not finalized_at or not within(finalized_at, conditions.finalized_from, conditions.finalized_to) then
      return
    end
  end
  local start = row_count * (#ROW_FIELDS + 1) + 1
  rows[start] = reservation_id
  for i = 1, #ROW_FIELDS do
    local value = values[i] or ''
    rows[start + i] = value
    row_bytes = row_bytes + #value
  end
  row_count = row_count + 1
end

local function examine_entry(reservation_id, created_at)
  local hold = read_record(reservation_id)
  if not hold then
    return
  end
  local defect = hold.tenant ~= tenant_id and 'MISSING_SCOPES' or hold_record.hold_defect(hold)
    or not hold_record.whole_number(hold[field.created_at]) and 'INVALID_CREATION'
  if defect then
    hold = known_of_damaged(reservation_id, hold, defect, created_at)
  elseif hold_record.is_overdue(hold, now) then
    expire_overdue(reservation_id, hold)
  end
  if satisfies(hold) and within(hold.expires_at, conditions.expires_from, conditions.expires_to)
    and is_wanted(reservation_id, hold) then
    append_row(reservation_id, hold)
  end
end

local function reply()
  local parts = { time.ms_text(now), walked_ms, walked_id }
  for _, list in ipairs({ { outcomes, 3 }, { unreadable, 2 } }) do
    parts[#parts + 1] = tostring(#list[1] / list[2])
    lists.append_all(parts, list[1])
  end
  local start = #parts
  for i = 1, #rows do
    parts[start + i] = rows[i]
  end
  return parts
end

-- While the reserve's idempotency record exists, it leads directly to the hold. Afterwards, the walk through the index
-- finds it.
if conditions.idempotency_key and walked_ms == '' then
  local record = redis.call('GET', keys.reserve_idempotency(tag, tenant_id, conditions.idempotency_key))
  local _, first, second, third = unpack(record and idempotency_record.recorded_texts(record) or {})
  local reservation_id =
    first and (string.match(second or '', '^rsv_%w+$') or hold_record.hold_from_parts(tag, first, third))
  local created_at = reservation_id and redis.call('ZSCORE', index, reservation_id)
  if created_at then
    if within(tonumber(created_at), tonumber(from_ms), tonumber(to_ms)) then
      examine_entry(reservation_id, created_at)
    end
    return reply()
  end
end

local entries = index_walk.index_stretch(index, walk_dir == 'desc', from_ms, to_ms, walked_ms, walked_id, examine)
local i = 1
while i < #entries and row_count < limit and row_bytes < MOST_BYTES and #outcomes < 3 * MOST_EXPIRED do
  walked_id, walked_ms = entries[i], entries[i + 1]
  examine_entry(walked_id, walked_ms)
  i = i + 2
end
if i > #entries and #entries < 2 * examine then
  walked_ms, walked_id = '', ''
end
return reply()
