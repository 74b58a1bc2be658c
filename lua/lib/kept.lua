-- kept: what follows from a text alone, kept for later runs. It must not be changed. At most `most` values; then it begins anew.
local function kept(most, make)
  local values, count = {}, 0
  return function(text)
    local value = values[text]
    if value == nil then
      if count == most then
        values, count = {}, 0
      end
      value = make(text)
      values[text], count = value, count + 1
    end
    return value
  end
end

return kept
