-- changeable_webhook: the subscription that a request names, if the caller may change it.
-- @include keys: tenant_key
-- @include tenant: read_tenant
-- @include webhook: read_webhook

-- Returns the record, or nil and a refusal: NOT_FOUND, TENANT_CLOSED. `tenant_id` is the caller's, or empty for an operator, who may
-- change any subscription.
local function changeable_webhook(tag, key, tenant_id)
  local record = read_webhook(key)
  if not record or (tenant_id ~= '' and record.tn ~= tenant_id) then
    return nil, { 'NOT_FOUND' }
  end
  local owner = read_tenant(tenant_key(tag, record.tn))
  if owner and owner.status == 'CLOSED' then
    return nil, { 'TENANT_CLOSED' }
  end
  return record
end
