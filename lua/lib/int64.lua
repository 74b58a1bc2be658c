-- int64: exact arithmetic on decimal strings, because Lua numbers are doubles and lose integers above 2^53.
-- Amounts of up to 15 digits, which is nearly all, use doubles, which hold them and their sums exactly.
-- Longer ones are split into 14 low digits and up to 5 high ones. A result outside int64 is nil: nothing wraps.
--
-- Convert a value that takes part in several sums to a figure first: a number if it is short enough, else the text
-- itself.
-- The sum of two numbers is a number; any other sum is text. i64_text converts back to text.
local I64_SHORT = 15
local I64_LIMB = 1e14

local function i64_split(digits)
  if #digits <= 14 then
    return 0, tonumber(digits)
  end
  return tonumber(string.sub(digits, 1, -15)), tonumber(string.sub(digits, -14))
end

local function i64_join(negative, high, low)
  local digits
  if high == 0 then
    digits = string.format('%.0f', low)
  else
    digits = string.format('%.0f%014.0f', high, low)
  end
  if #digits > 19 then
    return nil
  end
  if #digits == 19 and digits > (negative and '9223372036854775808' or '9223372036854775807') then
    return nil
  end
  if negative and digits ~= '0' then
    return '-' .. digits
  end
  return digits
end

local function i64_magnitude_less(a, b)
  if #a ~= #b then
    return #a < #b
  end
  return a < b
end

local function i64_long_add(a, b)
  local a_negative, b_negative = string.sub(a, 1, 1) == '-', string.sub(b, 1, 1) == '-'
  local x = a_negative and string.sub(a, 2) or a
  local y = b_negative and string.sub(b, 2) or b
  local same_sign = a_negative == b_negative
  if not same_sign and i64_magnitude_less(x, y) then
    x, y, a_negative = y, x, b_negative
  end
  local x_high, x_low = i64_split(x)
  local y_high, y_low = i64_split(y)
  local high, low
  if same_sign then
    high, low = x_high + y_high, x_low + y_low
    if low >= I64_LIMB then
      high, low = high + 1, low - I64_LIMB
    end
  else
    -- Signs differ and |x| >= |y|, so the difference keeps the sign that a_negative now holds.
    high, low = x_high - y_high, x_low - y_low
    if low < 0 then
      high, low = high - 1, low + I64_LIMB
    end
  end
  return i64_join(a_negative, high, low)
end

local function i64_figure(text)
  return #text <= I64_SHORT and tonumber(text) or text
end

local function i64_text(figure)
  return type(figure) == 'number' and string.format('%d', figure) or figure
end

local function i64_add(a, b)
  if type(a) == 'number' and type(b) == 'number' then
    return a + b
  end
  a, b = i64_text(a), i64_text(b)
  if #a <= I64_SHORT and #b <= I64_SHORT then
    return string.format('%d', tonumber(a) + tonumber(b))
  end
  return i64_long_add(a, b)
end

local function i64_sub(a, b)
  if type(a) == 'number' and type(b) == 'number' then
    return a - b
  end
  a, b = i64_text(a), i64_text(b)
  if #a <= I64_SHORT and #b <= I64_SHORT then
    return string.format('%d', tonumber(a) - tonumber(b))
  end
  return i64_long_add(a, string.sub(b, 1, 1) == '-' and string.sub(b, 2) or '-' .. b)
end

-- True when a < b.
local function i64_less(a, b)
  if type(a) == 'number' and type(b) == 'number' then
    return a < b
  end
  a, b = i64_text(a), i64_text(b)
  if #a <= I64_SHORT and #b <= I64_SHORT then
    return tonumber(a) < tonumber(b)
  end
  local a_negative, b_negative = string.sub(a, 1, 1) == '-', string.sub(b, 1, 1) == '-'
  if a_negative ~= b_negative then
    return a_negative
  end
  if a_negative then
    return i64_magnitude_less(b, a)
  end
  return i64_magnitude_less(a, b)
end

local function i64_negative(a)
  if type(a) == 'number' then
    return a < 0
  end
  return string.byte(a) == 45
end

local function i64_positive(a)
  if type(a) == 'number' then
    return a > 0
  end
  return a ~= '0' and string.byte(a) ~= 45
end

-- A sum of non-negative amounts that stops at the largest int64, for figures that are only informative.
local function i64_saturating_add(a, b)
  return i64_add(a, b) or '9223372036854775807'
end

-- True if the text is a canonical non-negative int64, the form in which this service writes amounts.
local function i64_is_amount(text)
  return type(text) == 'string' and (text == '0' or string.find(text, '^[1-9]%d*$') ~= nil)
    and (#text < 19 or (#text == 19 and text <= '9223372036854775807'))
end

return {
  add = i64_add, figure = i64_figure, is_amount = i64_is_amount, less = i64_less, negative = i64_negative,
  positive = i64_positive, saturating_add = i64_saturating_add, sub = i64_sub, text = i64_text,
}
