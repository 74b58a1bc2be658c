-- dispatch_group: the consumer group by which the dispatcher reads the event log of a partition.
local DISPATCH_GROUP = 'dispatcher'

-- What Redis tells of the group, by name, or nil where no dispatcher ever was.
local function dispatch_group_state(event_log)
  if redis.call('EXISTS', event_log) == 0 then
    return nil
  end
  for _, group in ipairs(redis.call('XINFO', 'GROUPS', event_log)) do
    local state = {}
    for i = 1, #group, 2 do
      state[group[i]] = group[i + 1]
    end
    if state.name == DISPATCH_GROUP then
      return state
    end
  end
  return nil
end
