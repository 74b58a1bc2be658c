-- charge_on_expiry: what a new hold costs if it expires, where its request does not say so.
-- @include int64
--
-- Policies and tenants set a share of the amount, as whole percents. It is rounded up: a cut call is not cheaper than
-- its share.

-- What is left of an amount after `percent` of it, rounded down, as text. No step leaves int64 or loses a digit: a
-- product of up to 15 digits is exact in doubles, and a longer one is added up.
local function rest_of(amount, percent)
  if #amount <= 13 then
    return int64.text(math.floor(tonumber(amount) * (100 - percent) / 100))
  end
  local hundredth, last_digits = string.match(amount, '^(%d+)(%d%d)$')
  local rest = int64.text(math.floor(tonumber(last_digits) * (100 - percent) / 100))
  for _ = 1, 100 - percent do
    rest = int64.add(rest, hundredth)
  end
  return rest
end

-- The charge of an amount, or nil if it is nothing.
local function default_of(percent_text, amount)
  local percent = string.find(percent_text, '^%d%d?%d?$') and tonumber(percent_text) or 101
  if percent > 100 then
    error('a corrupt record: its charge_on_expiry_percent is not a whole number up to 100')
  end
  local charge = int64.text(int64.sub(amount, rest_of(amount, percent)))
  return charge ~= '0' and charge or nil
end

return { default_of = default_of }
