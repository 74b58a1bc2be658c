-- dispatch_group: the consumer group through which the dispatcher reads the event log of a partition.
local DISPATCH_GROUP = 'dispatcher'

-- A flat list of names and values as a table.
local function named(flat)
  local values = {}
  for i = 1, #flat, 2 do
    values[flat[i]] = flat[i + 1]
  end
  return values
end

-- The group's state as XINFO GROUPS returns it, or nil if no dispatcher has created the group yet.
local function dispatch_group_state(event_log)
  if redis.call('EXISTS', event_log) == 0 then
    return nil
  end
  for _, group in ipairs(redis.call('XINFO', 'GROUPS', event_log)) do
    local state = named(group)
    if state.name == DISPATCH_GROUP then
      return state
    end
  end
  return nil
end

return { DISPATCH_GROUP = DISPATCH_GROUP, dispatch_group_state = dispatch_group_state, named = named }
