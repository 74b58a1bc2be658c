-- kept: what follows from a text alone, kept for later runs. At most `most` values; then it begins anew. `make` gets
-- what else the caller gives, which must follow from the text, too.
local function kept(most, make)
  local values, count = {}, 0
  return function(text, given)
    local value = values[text]
    if value == nil then
      if count == most then
        values, count = {}, 0
      end
      value = make(text, given)
      values[text], count = value, count + 1
    end
    return value
  end
end

return kept
