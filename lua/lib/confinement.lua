-- confinement: whether an operator that is confined to tenants may act for one of them.
-- Their text is ids, or how they begin, as in `team-*`, separated by spaces; empty for the whole deployment. Who is
-- confined may not see what has no tenant that can be read.
local function may_act_for(tenants, tenant_id)
  if tenants == '' then
    return true
  end
  for pattern in string.gmatch(tenants, '%S+') do
    local beginning = string.match(pattern, '^(.*)%*$')
    if tenant_id and (pattern == tenant_id or beginning and string.sub(tenant_id, 1, #beginning) == beginning) then
      return true
    end
  end
  return false
end

return { may_act_for = may_act_for }
