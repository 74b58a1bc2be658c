-- derive_scopes: the scope paths of a reservation, derived from its own record.
--
-- A record stores the subject's levels as given; the paths are their lower-case form, root first. Deriving them costs
-- less than storing them: a live record of three scopes would grow by 150 bytes.
local SCOPE_LEVELS = { 'workspace', 'app', 'workflow', 'agent', 'toolset' }

-- `levels` holds the values of the levels in this order, false or nil for a level that was not given.
local function derive_scopes(tenant, levels)
  local path = 'tenant:' .. tenant
  local scopes = { path }
  for i = 1, #SCOPE_LEVELS do
    if levels[i] then
      path = path .. '/' .. SCOPE_LEVELS[i] .. ':' .. string.lower(levels[i])
      scopes[#scopes + 1] = path
    end
  end
  return scopes
end

return derive_scopes
