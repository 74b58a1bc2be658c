-- hold_record: the record of one reservation as settlements need it. Its fields are those of lua/lib/field.lua.
-- @include derive_scopes, field, hold_form, int64, kept, keys, units
local HOLD_STATES = { ACTIVE = true, COMMITTED = true, RELEASED = true, EXPIRED = true }
-- By the letter in a record.
local EXPIRY_POLICIES = { m = 'MANUAL_CLEANUP', g = 'GRACE_ONLY' }

-- A stored count or instant as a number, or nil if the text is not one: tonumber alone accepts 'inf', 'nan' and '0x1f'.
local function whole_number(text)
  return text and #text <= 15 and string.find(text, '^%d+$') and tonumber(text) or nil
end

local HOLD_POLICIES = { REJECT = true, ALLOW_IF_AVAILABLE = true, ALLOW_WITH_OVERDRAFT = true }

-- Whether a request may have this tenant or level.
local function is_segment(text)
  return text and #text <= 128 and string.find(text, '^[%w_.-]+$') ~= nil
end

-- The owner, unit and scopes of a hold, with all that follows from them. `scopes` are the derived scopes, `held` those
-- that have a budget, both root first. `defect` is why they are not known. Values that no request can have are left
-- out.
local function new_subject(tenant, workspace, app, workflow, agent, toolset, unit, mask)
  local subject = { tenant = is_segment(tenant) and tenant or nil, unit = units.LETTER_OF[unit] and unit or nil,
    mask = mask, levels = { workspace or false, app or false, workflow or false, agent or false, toolset or false },
    held = {} }
  if not subject.tenant or not mask then
    subject.defect = 'MISSING_SCOPES'
  end
  for i = 1, 5 do
    if subject.levels[i] and not is_segment(subject.levels[i]) then
      subject.levels[i], subject.defect = false, subject.defect or 'MALFORMED_SCOPES'
    end
  end
  subject.scopes = subject.tenant and derive_scopes(subject.tenant, subject.levels)
  if not subject.scopes or not mask then
    return subject
  end
  if #subject.scopes ~= #mask or not string.find(mask, '^[01]*1[01]*$') then
    subject.holds_nothing = not subject.defect and mask == string.rep('0', #subject.scopes)
    subject.defect = subject.defect or 'MALFORMED_SCOPES'
  end
  for i, scope in ipairs(subject.scopes) do
    if string.sub(mask, i, i) == '1' then
      subject.held[#subject.held + 1] = scope
    end
  end
  return subject
end

-- The subjects used last, by their text: the holds of a page share a few, and most requests repeat them. What follows
-- from a text never changes, so it may outlive the run. Entries must not be changed. A kilobyte or two each.
local SUBJECTS_KEPT = 1000
local known_subject = kept(SUBJECTS_KEPT, function(text) return new_subject(hold_form.split_subject(text)) end)

-- The positions of the levels in the text of a subject.
local LEVEL_PLACES = { [field.workspace] = 2, [field.app] = 3, [field.workflow] = 4, [field.agent] = 5,
  [field.toolset] = 6 }
-- Redis stores a hash with a longer value as a table of three times the size.
local LONGEST_VALUE = 64

-- The fields and values of a new record: those of `fields` from `first` on, with the subject's levels among them.
local function fields_with_subject(tenant, unit, mask, fields, first)
  local subject, others, size = { tenant, '', '', '', '', '', unit, mask }, { field.subject, '' }, 2
  for i = first, #fields, 2 do
    local place = LEVEL_PLACES[fields[i]]
    if place then
      subject[place] = fields[i + 1]
    else
      others[size + 1], others[size + 2], size = fields[i], fields[i + 1], size + 2
    end
  end
  others[2] = table.concat(subject, '\31')
  if #others[2] <= LONGEST_VALUE then
    return others
  end
  return { field.tenant, tenant, field.unit, unit, field.scope_mask, mask, unpack(fields, first) }
end

-- The subjects of the last requests, by their text, which is that of a record's subject without its mask: kept as
-- `subjects` are.
local LEVEL_NAMES = { field.workspace, field.app, field.workflow, field.agent, field.toolset }

-- The tenant, unit and scopes of a request, and the fields and values of its levels.
local requested_subject = kept(SUBJECTS_KEPT, function(text)
  local values = { hold_form.split_subject(text .. '\31') }
  local levels, fields = {}, {}
  for i = 1, 5 do
    levels[i] = values[i + 1] or false
    if levels[i] then
      fields[#fields + 1], fields[#fields + 2] = LEVEL_NAMES[i], levels[i]
    end
  end
  return { text = text, tenant = values[1], unit = values[7], scopes = derive_scopes(values[1], levels),
    levels = fields }
end)

-- The fields and values of a request's levels, then those of `fields` from `first` on.
local function with_levels(subject, fields, first)
  local all = { unpack(subject.levels) }
  for i = first, #fields do
    all[#all + 1] = fields[i]
  end
  return all
end

-- The same for a new record, with the subject in one field if it is short enough. Returns them one by one.
local function subject_fields(subject, mask, fields, first)
  local text = subject.text .. '\31' .. mask
  if #text <= LONGEST_VALUE then
    return field.subject, text, unpack(fields, first)
  end
  return unpack(fields_with_subject(subject.tenant, subject.unit, mask, with_levels(subject, fields, first), 1))
end

-- The fields and values of a new record that do not change while it lives, one by one. `fields` are those of the
-- request, which begin with the action's kind and name.
local function lasting_fields(subject, mask, policy, max_extensions, key_id, fields, first)
  local kind, text = fields[first + 1], subject.text .. '\31' .. mask
  local constants = hold_form.POLICY_LETTERS[policy] .. max_extensions .. '\31' .. key_id .. '\31' .. kind .. '\31'
    .. fields[first + 3]
  if #text <= LONGEST_VALUE and #constants <= LONGEST_VALUE and not string.find(kind, '\31', 1, true) then
    return field.subject, text, field.constants, constants, unpack(fields, first + 4)
  end
  return field.overage_policy, policy, field.max_extensions, max_extensions, field.key_id, key_id,
    subject_fields(subject, mask, fields, first)
end

-- What the idempotency record of a reserve has of its hold: the random part of the id, the end of the lease, and the
-- policy's letter with the mask. There is room for three balances, because a table that grows is reallocated each time.
local function hold_parts(reservation_id, expires_at, policy, mask)
  return { string.sub(reservation_id, 7), expires_at, hold_form.POLICY_LETTERS[policy] .. mask, nil, nil, nil }
end

-- The id, the policy and the mask, from the first and the last of these parts. Nil if they are something else.
local function hold_from_parts(tag, random_part, terms)
  local letter, mask = string.match(terms or '', '^(%a)([01]+)$')
  if letter and #random_part == 16 and not string.find(random_part, '%W') then
    return 'rsv_' .. string.sub(tag, 3, 4) .. random_part, hold_form.POLICIES_BY_LETTER[letter], mask
  end
  return nil
end

-- The overage policy, the most extensions and the API key of a hold that was loaded with FIELD.constants.
local function constants_of_hold(hold)
  if hold[field.constants] then
    return hold_form.split_constants(hold[field.constants])
  end
  local fields = hold.fields
  if fields then
    return fields[field.overage_policy], fields[field.max_extensions], fields[field.key_id]
  end
  return unpack(redis.call('HMGET', hold.key, field.overage_policy, field.max_extensions, field.key_id))
end

-- The idempotency key of the reserve, of a hold that was loaded with both of its fields. Nil if the record has none.
local function key_of_hold(hold)
  if hold.fields then
    return hold.fields[field.idempotency_key]
  end
  return hold[field.idempotency_key] or hold[field.idempotency_uuid]
    and hold_form.uuid_text(hold[field.idempotency_uuid]) or nil
end

-- The record, or nil if it does not exist. Its figures are text as stored; hold_defect checks whether they are valid.
-- Each field costs about a third of a microsecond to read, so callers name those that not every script needs. They are
-- returned under their stored names, as stored. `fields` is set only for a record without FIELD.subject: its values, as
-- short_fields reads them.
local function load_hold(key, ...)
  local f = redis.call('HMGET', key, field.state, field.subject, field.amount, field.expires_at, field.grace_ms,
    field.expiry_policy,
    ...)
  if not f[1] then
    if redis.call('EXISTS', key) == 0 then
      return nil
    end
    f[1] = ''
  end
  local text, fields = f[2], nil
  if not text then
    fields = hold_form.short_fields(key)
    text = hold_form.subject_text(fields)
    f[3], f[4] = fields[field.amount], fields[field.expires_at]
    f[5], f[6] = fields[field.grace_ms], fields[field.expiry_policy]
  end
  local subject = known_subject(text)
  local hold = {
    key = key, state = f[1], amount = f[3], expires_at = whole_number(f[4]),
    grace_ms = whole_number(f[5]), fields = fields,
    subject = subject, tenant = subject.tenant, unit = subject.unit, mask = subject.mask,
    levels = subject.levels, scopes = subject.scopes,
    expiry_letter = f[6] or nil,
  }
  for i = 1, select('#', ...) do
    local name = select(i, ...)
    hold[name] = fields and fields[name] or f[6 + i]
  end
  return hold
end

-- Why a hold cannot be settled, or nil. The reason words are those of cycles_reservations_quarantined_total.
local function terms_defect(hold)
  if not HOLD_STATES[hold.state] then
    return 'INVALID_STATE'
  end
  if not hold.expires_at or not hold.grace_ms or hold.expiry_letter and not EXPIRY_POLICIES[hold.expiry_letter] then
    return 'INVALID_EXPIRY'
  end
  if not hold.tenant or not hold.mask then
    return 'MISSING_SCOPES'
  end
  if not int64.is_amount(hold.amount) or not hold.unit then
    return 'INVALID_ESTIMATE'
  end
  return nil
end

-- A release from quarantine may have returned nothing. Only then does an ended hold have no scopes.
local function hold_defect(hold)
  local defect = terms_defect(hold)
  if not defect and hold.subject.holds_nothing and hold.state ~= 'ACTIVE' then
    return nil
  end
  return defect or hold.subject.defect
end

local function reclaim_deadline(hold)
  return hold.expires_at + hold.grace_ms
end

local function is_past_grace(hold, now)
  return hold.state == 'ACTIVE' and hold.expires_at and hold.grace_ms and now > reclaim_deadline(hold)
end

-- True if the hold is ACTIVE in its record, but too old to be settled, so that any script that finds it expires it.
local function is_overdue(hold, now)
  return is_past_grace(hold, now) and hold.expiry_letter ~= 'm'
end

-- True if the hold's grace is over and its policy is MANUAL_CLEANUP. It can be neither committed nor extended, and
-- keeps its amount until it is released or an operator's cleanup expires it.
local function awaits_cleanup(hold, now)
  return is_past_grace(hold, now) and hold.expiry_letter == 'm'
end

-- The index that has a live hold with this letter at its reclaim deadline. Holds that the sweeper must not expire are
-- not in the sweeper's index.
local function deadline_index_of(tag, letter)
  return letter == 'm' and keys.cleanup_index(tag) or keys.ttl_index(tag)
end

local function deadline_index_key(tag, hold)
  return deadline_index_of(tag, hold.expiry_letter)
end

-- Removes the entries of a hold from both indexes of deadlines.
local function remove_deadlines(tag, reservation_id)
  -- Read before an index is written: if one of the two is damaged, the entry must not be lost from both.
  redis.call('ZCARD', keys.cleanup_index(tag))
  redis.call('ZREM', keys.ttl_index(tag), reservation_id)
  redis.call('ZREM', keys.cleanup_index(tag), reservation_id)
end

return {
  EXPIRY_POLICIES = EXPIRY_POLICIES, HOLD_POLICIES = HOLD_POLICIES, HOLD_STATES = HOLD_STATES,
  awaits_cleanup = awaits_cleanup, constants_of_hold = constants_of_hold, deadline_index_key = deadline_index_key,
  deadline_index_of = deadline_index_of, fields_with_subject = fields_with_subject, hold_defect = hold_defect,
  hold_from_parts = hold_from_parts, hold_parts = hold_parts, is_overdue = is_overdue, key_of_hold = key_of_hold,
  known_subject = known_subject, lasting_fields = lasting_fields, load_hold = load_hold, new_subject = new_subject,
  reclaim_deadline = reclaim_deadline, remove_deadlines = remove_deadlines, requested_subject = requested_subject,
  terms_defect = terms_defect, whole_number = whole_number,
  with_levels = with_levels,
}
