-- all_or_none: a set of reserves in one run, which grants all of them or none.
-- @include field, grouped, idempotency_record, keys
--
-- The run calls the script `reserve` twice for each member. The first pass is a rehearsal on tables of its own: every
-- check of a reserve is made on what the members before it would have left, nothing is written, and the first refusal
-- ends it. Its reply and its denial event are those of that reserve alone. What time has made due is done at the first
-- touch, as for every reserve: rollovers, turns of windows, and the reclaiming of overdue holds, after which the
-- service calls again. The second pass has the same instant and cannot be refused.
--
-- `group.set` is what the calls of a pass share, and `group.rehearses` is true in the first one.

-- The last text of a member's idempotency record: the id of its set, and the names of the records of all members,
-- without their tag.
local SET_FORM = '^set:(%S+) (.*)$'

-- The idempotency record among the keys of a reserve.
local RECORD = 2

local function names_of_records(calls)
  local names = {}
  for i, one in ipairs(calls) do
    names[i] = keys.name_of(one.keys[RECORD])
  end
  return table.concat(names, ' ')
end

local function new_set(calls, lives_ms)
  local known = 0
  for _, one in ipairs(calls) do
    known = known + redis.call('EXISTS', one.keys[RECORD])
  end
  return {
    names = names_of_records(calls),
    -- Records of a set lapse together. If some are gone all the same, nothing tells what the others belong to.
    is_torn = known > 0 and known < #calls,
    -- How long the idempotency records must last: as long as the last of the reservations can.
    lives_ms = lives_ms or 0,
    -- How many actions the members before have counted, by subject and action, and then by unit.
    actions = {}, units = {},
    -- How many reserves the rehearsal has counted, by policy.
    rates = {},
  }
end

-- Whether a member counts in quotas and rates: members with the same subject and action in different units are one
-- action. `fields` are the request's, from `first` on, which begin with the action's kind and name.
local function counts(set, subject, facts, fields, first)
  local action = table.concat(subject.scopes, '|') .. '|' .. fields[first + 1] .. '|' .. fields[first + 3]
    .. '|' .. facts
  local of_unit = subject.unit .. '|' .. action
  set.units[of_unit] = (set.units[of_unit] or 0) + 1
  if set.units[of_unit] <= (set.actions[action] or 0) then
    return false
  end
  set.actions[action] = set.units[of_unit]
  return true
end

-- What stands behind the parts of a member's idempotency record.
local function last_part(set, fields, first)
  for i = first, #fields, 2 do
    if fields[i] == field.reservation_set then
      return 'set:' .. fields[i + 1] .. ' ' .. set.names
    end
  end
  error('a member of a set does not name it')
end

-- The set's id, and the keys of its idempotency records, from the parts of one of them.
local function set_of_parts(tag, parts)
  local id, names = string.match(parts and parts[#parts] or '', SET_FORM)
  local records = {}
  for name in string.gmatch(names or '', '%S+') do
    records[#records + 1] = keys.of_name(name, tag)
  end
  return id, records
end

-- Makes the calls of a pass. Returns their replies, and the place of the one that is not granted, if any.
local function replies_of(call, calls, group)
  local replies = {}
  for i, one in ipairs(calls) do
    local reply = call({ unpack(one.keys) }, { unpack(one.args) }, group)
    replies[i] = reply
    if reply[1] ~= 'ALLOW' and reply[1] ~= 'ALLOW_WITH_CAPS' then
      return replies, i
    end
  end
  return replies, nil
end

-- `keys` and `args` are those of a run of several calls. Returns the place of the refused member, counted from 0, and
-- its text; or an empty text, the id of the set if it is replayed, and the texts of all.
local function run_set(call, key_list, args)
  local calls, tag = grouped.calls_in(key_list, args), keys.tag_of(key_list[1])
  local rehearsal = grouped.new()
  rehearsal.set, rehearsal.rehearses = new_set(calls), true
  local replies, refused = replies_of(call, calls, rehearsal)
  if refused then
    return { tostring(refused - 1), '', grouped.text_of(replies[refused]) }
  end
  if replies[1][2] ~= 'replay' then
    local group = grouped.new()
    group.now, group.set = rehearsal.now, new_set(calls, rehearsal.set.lives_ms)
    replies, refused = replies_of(call, calls, group)
    if refused then
      error('a reserve of a set was refused after its rehearsal: ' .. replies[refused][1])
    end
    grouped.write(group, tag)
    local records = {}
    for i, one in ipairs(calls) do
      records[i] = one.keys[RECORD]
    end
    idempotency_record.lapse_together(records)
  end
  local answer = { '', rehearsal.set.id or '' }
  for i, reply in ipairs(replies) do
    answer[i + 2] = grouped.text_of(reply)
  end
  return answer
end

return { counts = counts, last_part = last_part, run_set = run_set, set_of_parts = set_of_parts }
