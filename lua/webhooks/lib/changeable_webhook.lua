-- changeable_webhook: the subscription that a request names, if the caller may change it.
-- @include keys, tenant_state, webhook_record

-- Returns the record, or nil and a refusal: NOT_FOUND, TENANT_CLOSED. `tenant_id` is the caller's, or empty for an
-- operator, who may change any subscription.
local function changeable_webhook(tag, key, tenant_id)
  local record = webhook_record.read_webhook(key)
  if not record or (tenant_id ~= '' and record.tn ~= tenant_id) then
    return nil, { 'NOT_FOUND' }
  end
  local owner = tenant_state.read_tenant(keys.tenant(tag, record.tn))
  if owner and owner.status == 'CLOSED' then
    return nil, { 'TENANT_CLOSED' }
  end
  return record
end

return changeable_webhook
