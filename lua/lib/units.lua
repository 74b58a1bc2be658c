-- units: the units of amounts, as UNITS of src/ledger/amount.ts has them, with the letter of each in a packed record.
local ROWS = { { 'USD_MICROCENTS', 'u' }, { 'TOKENS', 't' }, { 'CREDITS', 'c' }, { 'RISK_POINTS', 'r' } }

local units = {
  ALL = {},
  LETTER_OF = {},
  BY_LETTER = {},
}
for i = 1, #ROWS do
  local unit, letter = ROWS[i][1], ROWS[i][2]
  units.ALL[i], units.LETTER_OF[unit], units.BY_LETTER[letter] = unit, letter, unit
end

return units
