-- emit_webhook_change: the event of a change of a subscription.
-- @include event_writer

local function json_list(names)
  return #names == 0 and '[]' or '["' .. table.concat(names, '","') .. '"]'
end

-- Emits the event of one change. The new status decides its type; `changed` names the other changed fields.
local function emit_webhook_change(tag, subscription_id, owner, previous_status, new_status, changed, origin)
  local figures = { 'subscription_id', subscription_id, 'tenant_id', owner, 'previous_status', previous_status,
    'new_status', new_status, 'changed_fields', json_list(changed) }
  if new_status == previous_status then
    event_writer.append_event(tag, 'webhook.updated', owner, nil, origin, figures)
  elseif new_status == 'ACTIVE' then
    event_writer.append_event(tag, 'webhook.resumed', owner, nil, origin, figures)
  else
    event_writer.append_event(tag, 'webhook.paused', owner, nil, origin, figures)
  end
end

return emit_webhook_change
