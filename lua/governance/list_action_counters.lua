#!lua flags=no-writes
-- list_action_counters: a tenant's counters of actions that still count, in bounded pages: those of calendar windows,
-- or those of runs.
--
-- KEYS[1]   run_counter_index  sorted set of the counters of the tenant's runs
-- ARGV[1]   tenant_id
-- ARGV[2]   section          calendar or runs
-- ARGV[3]   run              only its counters, percent-encoded, or empty
-- ARGV[4]   scope_prefix     only counters of this scope and those below it, or empty
-- ARGV[5]   after            the position at which the previous page ended, or empty
-- ARGV[6]   limit            counters to look at, at least 1
-- RETURNS   now_ms next? counters(position scope window kind window_key used:int limit:int policy_id? last_ms
--           expires_ms)*
-- BOUND     limit counters
-- EMITS     nothing
-- @include  action_counters, keys, lists, scope_tree, time
--
-- Counters come in the order of their run, scope, window and kind. `next` is the position after which the next page
-- begins. It is empty at the end. A damaged counter has no window, and the name of its field as its kind.
local index, tenant_id, section, run, scope_prefix, after, limit = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5],
  tonumber(ARGV[6])
local by_run = section == 'runs'
local tag = keys.tag_of(index)
local now = time.now_ms()
local day = time.ms_text(math.floor(now / action_counters.DAY_MS))
local prefix = by_run and (run == '' and '' or run .. '|' .. scope_prefix) or scope_prefix

-- Members behind the last one of the prefix are of no interest. No member has a byte above that of a DEL.
local from = after ~= '' and '(' .. after or prefix ~= '' and '[' .. prefix or '-'
local to = prefix ~= '' and '(' .. prefix .. '\127' or '+'
local members = redis.call('ZRANGEBYLEX', by_run and index or keys.action_counter_index(tag, tenant_id, day), from, to,
  'LIMIT', 0, limit)

local reply = { time.ms_text(now), #members == limit and members[limit] or '' }

-- Adds the counters of one hash from some of its fields.
local function append_counters(key, their_run, first, fields)
  local values = #fields > 0 and redis.pcall('HMGET', key, unpack(fields)) or {}
  for i, field in ipairs(fields) do
    local scope, window_name, kind = action_counters.parts_of_field(field)
    local window = window_name and action_counters.WINDOWS[window_name]
    local counter = values[i] and action_counters.parse_counter(values[i])
    if values.err or values[i] and not (window and counter) then
      lists.append_all(reply, { members[first + i - 1], scope or '', '', field, '', '0', '0', '', '0', '0' })
    elseif counter and scope_tree.is_within(scope, scope_prefix)
      and action_counters.is_current(window, counter, now) then
      lists.append_all(reply, { members[first + i - 1], scope, window_name, kind,
        unpack(action_counters.counter_figures(window, counter, their_run)) })
    end
  end
end

if not by_run then
  append_counters(keys.action_counters(tag, tenant_id, day), nil, 1, members)
  return reply
end
-- Neighbours of one run are read together.
local first, fields, current = 1, {}, nil
for i = 1, #members + 1 do
  local their_run, field = string.match(members[i] or '', '^([^|]*)|(.*)$')
  if their_run ~= current then
    if current then
      append_counters(keys.run_counters(tag, tenant_id, current), current, first, fields)
    end
    first, fields, current = i, {}, their_run
  end
  fields[#fields + 1] = field
end
return reply
