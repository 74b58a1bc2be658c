-- credit_record: the credits of a budget, in memory: parts of its allocation that burn in an order, and end.
-- @include field, int64, kept
--
-- A budget with credits has one more field, `credits`: the next moment of any of them in ms, or nothing; the credits
-- that have not ended, in the order in which they burn; and pins, oldest first. Between the three stands |, between
-- credits or pins a space.
-- credit  id,state,left,priority,starts,ends,notice: instants in ms. The state is s (scheduled: not yet a part of the
--         allocation) or a (active). Nothing stands for no end, and for no notice or one that was given.
-- pin     id,ends,left,live: what an ended credit still keeps for the holds that were live at its end. `live` is what
--         these have reserved.
--
-- Credits burn by priority, then the soonest end, start and id; what else is allocated (the base) comes last. They are
-- consumed when something is charged, not when it is held.
-- At the end of a credit, it pins what of the reserved amounts neither older pins nor the credits before it back. A
-- hold that was made before the end draws on the pin first, and takes its amount from `live` as it ends. After each
-- change, in the order of their ends, a pin keeps at most its `live` less what older pins keep. What is clipped lapses:
-- it leaves the allocation. INVARIANT: base + credits + pins = allocated - spent, and base + credits cover what was
-- held after the last end, unless a RESET took more from the base than it had. test/property/credits.test.ts has the
-- model.
local CREDIT_FORM = '^([%w_]+),([as]),(%d+),(%d+),(%d+),(%d*),(%d*)$'
local PIN_FORM = '^([%w_]+),(%d+),(%d+),(%d+)$'
local MOST = 64

local function instant(text)
  return text ~= '' and #text <= 15 and tonumber(text) or nil
end

-- Ends the script if the text is damaged.
local function parse(text)
  local list, pins = {}, {}
  local listed, pinned = string.match(text, '^%d*|([^|]*)|([^|]*)$')
  for part in string.gmatch(listed or '', '%S+') do
    local id, state, left, priority, starts, ends, notice = string.match(part, CREDIT_FORM)
    if not id or not int64.is_amount(left) or not instant(starts) then
      error('corrupt credits: ' .. part)
    end
    list[#list + 1] = { id = id, is_active = state == 'a', left = int64.figure(left), priority = tonumber(priority),
      starts = instant(starts), ends = instant(ends), notice = instant(notice) }
  end
  for part in string.gmatch(pinned or '', '%S+') do
    local id, ends, left, live = string.match(part, PIN_FORM)
    if not id or not int64.is_amount(left) or not int64.is_amount(live) or not instant(ends) then
      error('corrupt credits: ' .. part)
    end
    pins[#pins + 1] = { id = id, ends = instant(ends), left = int64.figure(left), live = int64.figure(live) }
  end
  if #list + #pins == 0 then
    error('corrupt credits: ' .. text)
  end
  return { list = list, pins = pins }
end

-- Parsed credits must not be changed: `kept` shares them with other runs. Those that a run has made are kept for the
-- next one: without them, a commit at three scopes with ten credits each takes twice as long.
local CREDITS_KEPT = 200
local parsed = kept(CREDITS_KEPT, function(text, made) return made or parse(text) end)

-- When something next happens to a credit: it starts, its notice is due, or it ends. Nil if nothing will.
local function moment_of(credit)
  if not credit.is_active then
    return credit.starts
  end
  return credit.notice and credit.ends and math.min(credit.notice, credit.ends) or credit.ends
end

local function next_moment(credits)
  local first
  for _, credit in ipairs(credits.list) do
    local moment = moment_of(credit)
    if moment and (not first or moment < first) then
      first = moment
    end
  end
  return first
end

local function instant_text(at)
  return at and string.format('%d', at) or ''
end

-- Empty if there are neither credits nor pins.
local function text_of(credits)
  local listed, pinned = {}, {}
  for i, credit in ipairs(credits.list) do
    -- Nearly every charge leaves all but what is left of one as it is.
    credit.terms = credit.terms or string.format(',%d,%d,%s,%s', credit.priority, credit.starts,
      instant_text(credit.ends), instant_text(credit.notice))
    listed[i] = credit.id .. (credit.is_active and ',a,' or ',s,') .. int64.text(credit.left) .. credit.terms
  end
  for i, pin in ipairs(credits.pins) do
    pinned[i] = table.concat({ pin.id, instant_text(pin.ends), int64.text(pin.left), int64.text(pin.live) }, ',')
  end
  return #listed + #pinned == 0 and ''
    or instant_text(next_moment(credits)) .. '|' .. table.concat(listed, ' ') .. '|' .. table.concat(pinned, ' ')
end

-- Whether a moment has come. `text` is the field.
local function is_due(text, now)
  local moment = tonumber(string.match(text, '^%d+'))
  return moment and moment <= now or false
end

-- Whether two texts, or nothing, name the same next moment.
local function has_same_moment(text, other)
  return text and other and string.match(text, '^%d*') == string.match(other, '^%d*') or false
end

local function is_before(a, b)
  local a_ends, b_ends = a.ends or math.huge, b.ends or math.huge
  if a.priority ~= b.priority then
    return a.priority < b.priority
  elseif a_ends ~= b_ends then
    return a_ends < b_ends
  elseif a.starts ~= b.starts then
    return a.starts < b.starts
  end
  return a.id < b.id
end

local function copy_of(part)
  local copy = {}
  for name, value in pairs(part) do
    copy[name] = value
  end
  return copy
end

-- Credits that may be changed.
local function copy_credits(credits)
  local copy = { list = {}, pins = {} }
  for i, credit in ipairs(credits and credits.list or {}) do
    copy.list[i] = copy_of(credit)
  end
  for i, pin in ipairs(credits and credits.pins or {}) do
    copy.pins[i] = copy_of(pin)
  end
  return copy
end

local function sum(a, b)
  return int64.figure(int64.text(int64.add(a, b)))
end

local function difference(a, b)
  return int64.figure(int64.text(int64.sub(a, b)))
end

local function least(a, b)
  return int64.less(a, b) and a or b
end

local function pinned_of(credits)
  local pinned = 0
  for _, pin in ipairs(credits.pins) do
    pinned = sum(pinned, pin.left)
  end
  return pinned
end

-- What active credits and pins have together, a figure.
local function held(credits)
  local total = pinned_of(credits)
  for _, credit in ipairs(credits.list) do
    total = credit.is_active and sum(total, credit.left) or total
  end
  return total
end

-- What becomes of credits, for their records and events: `lapses` have the id and the amount, `happened` a word, the
-- credit, and what is pinned of it or repaid by it, `gone` the ids of which nothing is left.
local function new_effects()
  return { lapses = {}, happened = {}, gone = {} }
end

-- Clips the pins, and returns what lapses of them.
local function clip(credits, reserved, effects)
  local backed, lapsed, kept_pins = 0, 0, {}
  for _, pin in ipairs(credits.pins) do
    pin.live = least(pin.live, reserved)
    local room = difference(pin.live, backed)
    local left = least(pin.left, int64.negative(room) and 0 or room)
    if int64.less(left, pin.left) then
      local cut = difference(pin.left, left)
      lapsed, pin.left = sum(lapsed, cut), left
      effects.lapses[#effects.lapses + 1] = { pin.id, int64.text(cut) }
    end
    backed = sum(backed, left)
    if int64.positive(left) then
      kept_pins[#kept_pins + 1] = pin
    else
      effects.gone[#effects.gone + 1] = pin.id
    end
  end
  credits.pins = kept_pins
  return lapsed
end

-- Takes an amount from the budget's figures, as a DEBIT does.
local function take_from_allocation(figures, amount)
  figures.allocated = int64.text(int64.sub(figures.allocated, amount))
  figures.remaining = int64.text(int64.sub(figures.remaining, amount))
end

-- Ends a credit at an instant. What is not pinned lapses, or is voided; it is returned. `figures` and `credits`
-- change.
local function end_credit(figures, credits, place, at, effects)
  local credit, before = table.remove(credits.list, place), pinned_of(credits)
  for i = 1, place - 1 do
    before = credits.list[i].is_active and sum(before, credits.list[i].left) or before
  end
  local reserved = int64.figure(figures.reserved)
  local needed = difference(reserved, before)
  local pinned = least(credit.left, int64.negative(needed) and 0 or needed)
  local cut = difference(credit.left, pinned)
  take_from_allocation(figures, cut)
  if int64.positive(pinned) then
    -- After whatever is held: a hold is never made before the end of a pin that is there.
    local last = credits.pins[#credits.pins]
    credits.pins[#credits.pins + 1] = { id = credit.id, ends = math.max(at, last and last.ends + 1 or 0), left = pinned,
      live = reserved }
  else
    effects.gone[#effects.gone + 1] = credit.id
  end
  take_from_allocation(figures, clip(credits, reserved, effects))
  return credit, pinned, cut
end

-- Makes a credit a part of the allocation. It repays debt first, as a CREDIT does. False, and nothing changed, if a
-- figure would leave int64.
local function start_credit(figures, credit)
  local repaid = int64.less(figures.debt, credit.left) and figures.debt or int64.text(credit.left)
  local allocated, spent = int64.add(figures.allocated, credit.left), int64.add(figures.spent, repaid)
  local remaining = int64.add(figures.remaining, credit.left)
  if not (allocated and spent and remaining) then
    return false
  end
  figures.allocated, figures.spent, figures.remaining = int64.text(allocated), int64.text(spent), int64.text(remaining)
  figures.debt = int64.text(int64.sub(figures.debt, repaid))
  credit.left, credit.is_active = difference(credit.left, repaid), true
  return true, repaid
end

local function tell(effects, word, credit, pinned, cut)
  effects.happened[#effects.happened + 1] = { word, credit, int64.text(pinned or 0), int64.text(cut or 0) }
end

-- The credit whose moment comes first, and the moment. What ends comes before what starts in the same ms, and otherwise
-- what burns first.
local function first_due(credits, now)
  local place, first, starts
  for i, credit in ipairs(credits.list) do
    local moment = moment_of(credit)
    if moment and moment <= now
      and (not first or moment < first or moment == first and starts and credit.is_active) then
      place, first, starts = i, moment, not credit.is_active
    end
  end
  return place, first
end

-- Lets every moment up to `now` come, in order. `figures` have the budget's as text, and change.
local function pass(figures, credits, now)
  local effects = new_effects()
  credits = copy_credits(credits)
  local place, moment = first_due(credits, now)
  while place do
    local credit = credits.list[place]
    if not credit.is_active then
      local has_started, repaid = start_credit(figures, credit)
      if has_started then
        tell(effects, 'started', credit, 0, repaid)
      end
      if not has_started or not int64.positive(credit.left) then
        -- What does not fit in the allocation lapses.
        table.remove(credits.list, place)
        effects.gone[#effects.gone + 1] = credit.id
        if not has_started then
          effects.lapses[#effects.lapses + 1] = { credit.id, int64.text(credit.left) }
        end
        tell(effects, has_started and 'exhausted' or 'ended', credit, 0, has_started and 0 or credit.left)
      end
    elseif credit.ends == moment then
      local _, pinned, cut = end_credit(figures, credits, place, moment, effects)
      effects.lapses[#effects.lapses + 1] = int64.positive(cut) and { credit.id, int64.text(cut) } or nil
      tell(effects, 'ended', credit, pinned, cut)
    else
      credit.notice, credit.terms = nil, nil
      tell(effects, 'ending', credit)
    end
    place, moment = first_due(credits, now)
  end
  return credits, effects
end

-- The credits after a hold that was made at `made_at` has left the budget, or after a charge without a hold. `reserved`
-- is what the budget holds afterwards, `estimate` what the hold was, and `funded` what of the charge is no debt. The
-- second value is what has lapsed, then the effects, in which `paid` has the id and the amount of each credit that paid
-- a part.
local function charged(credits, reserved, made_at, estimate, funded)
  local effects, left, paid, rest, pins = new_effects(), funded, {}, {}, {}

  -- The part after it has paid what it can of what is left.
  local function pay(part)
    local share = least(left, part.left)
    if not int64.positive(share) then
      return part
    end
    part = copy_of(part)
    part.left, left = difference(part.left, share), difference(left, share)
    paid[#paid + 1] = { part.id, int64.text(share) }
    return part
  end

  for i, pin in ipairs(credits.pins) do
    pins[i] = copy_of(pin)
    if made_at < pin.ends then
      pins[i].live = difference(pin.live, estimate)
      pins[i].live = int64.negative(pins[i].live) and 0 or pins[i].live
      pins[i] = pay(pins[i])
    end
  end
  for _, credit in ipairs(credits.list) do
    credit = credit.is_active and pay(credit) or credit
    if int64.positive(credit.left) then
      rest[#rest + 1] = credit
    else
      effects.gone[#effects.gone + 1] = credit.id
      tell(effects, 'exhausted', credit)
    end
  end
  effects.paid = paid
  credits = { list = rest, pins = pins }
  return credits, clip(credits, reserved, effects), effects
end

-- Lets a hold leave a budget with credits, in memory, or charges it without one. Changes `allocated` and
-- `credits_text`, adds to `credit_effects`, and returns by how much what remains is less. The rest is as for `charged`.
local function leave(budget, reserved, made_at, estimate, funded)
  local credits, lapsed, effects = charged(parsed(budget.credits_text), reserved, made_at, estimate, funded)
  local text = text_of(credits)
  budget.credits_text = text ~= '' and text or nil
  if text ~= '' then
    parsed(text, credits)
  end
  budget.allocated = int64.text(int64.sub(budget.allocated, lapsed))
  budget.allocated_figure = int64.figure(budget.allocated)
  budget.credit_effects = budget.credit_effects or {}
  budget.credit_effects[#budget.credit_effects + 1] = effects
  return lapsed
end

-- The place of a credit that has not ended.
local function place_of(credits, id)
  for i, credit in ipairs(credits.list) do
    if credit.id == id then
      return i
    end
  end
  return nil
end

-- Which credits paid for a charge, of budgets that `leave` has changed: a group for each budget with | between, of an
-- id and an amount each, with a colon between and a space between credits. Empty if none did.
local function paid_text(budgets)
  local groups, has_paid = {}, false
  for i, budget in ipairs(budgets) do
    local paid, effects = {}, budget.credit_effects or {}
    for _, share in ipairs(effects[1] and effects[#effects].paid or {}) do
      paid[#paid + 1], has_paid = share[1] .. ':' .. share[2], true
    end
    groups[i] = table.concat(paid, ' ')
  end
  return has_paid and table.concat(groups, '|') or ''
end

-- The credits that paid at the budget of this number, in the order in which they did.
local function paid_at(text, number)
  local paid, place = {}, 0
  for group in string.gmatch((text or '') .. '|', '([^|]*)|') do
    place = place + 1
    for id, amount in string.gmatch(place == number and group or '', '(%S+):(%d+)') do
      paid[#paid + 1] = { id, int64.figure(amount) }
    end
  end
  return paid
end

-- How much of a refund is of what these credits paid: they come before the base.
local function refunded_share(paid, before, amount)
  local total = 0
  for _, share in ipairs(paid) do
    total = sum(total, share[2])
  end
  return difference(least(total, sum(before, amount)), least(total, int64.figure(before)))
end

-- Gives `amount` of a refund back to those of the credits in `paid` that still burn, the last that paid first. The rest
-- stays with the base: it paid only when these were consumed. `before` is what was refunded earlier, `most` what comes
-- back at all. Returns the text of the budget's credits, and who got what, as in a paid_text.
local function refund(text, paid, before, amount, most)
  local credits, given = copy_credits(parsed(text)), {}
  local passed, due, left = int64.figure(before), int64.figure(amount), most
  for i = #paid, 1, -1 do
    local already = least(passed, paid[i][2])
    local part = least(due, difference(paid[i][2], already))
    passed, due = difference(passed, already), difference(due, part)
    local place = int64.positive(part) and place_of(credits, paid[i][1])
    part = least(part, left)
    if place and int64.positive(part) then
      credits.list[place].left, left = sum(credits.list[place].left, part), difference(left, part)
      given[#given + 1] = paid[i][1] .. ':-' .. int64.text(part)
    end
  end
  return text_of(credits), table.concat(given, ' ')
end

-- Credits with one more, which has not started. Its place follows from the order.
local function with(credits, credit)
  credits = copy_credits(credits)
  credits.list[#credits.list + 1] = credit
  table.sort(credits.list, is_before)
  return credits
end

-- When the hold of this record was made, as far as credits of its budgets have to know. If it is not known, the hold
-- draws on no pin.
local function made_at_of(budgets, reservation)
  for _, budget in ipairs(budgets) do
    if budget.credits_text then
      return tonumber(redis.call('HGET', reservation, field.created_at) or '') or math.huge
    end
  end
  return math.huge
end

-- When a hold on these budgets is made, at `now` by the clock: at or after the ends of their pins, even if the clock
-- has gone back since. So it never draws on one.
local function made_at(budgets, now)
  for i = 1, #budgets do
    local text = budgets[i].credits_text
    if text then
      for _, pin in ipairs(parsed(text).pins) do
        now = math.max(now, pin.ends)
      end
    end
  end
  return now
end

return {
  MOST = MOST, copy = copy_credits, end_credit = end_credit, has_same_moment = has_same_moment, held = held,
  is_due = is_due,
  leave = leave, made_at = made_at, made_at_of = made_at_of,
  new_effects = new_effects, paid_at = paid_at, paid_text = paid_text,
  parsed = parsed, pass = pass, place_of = place_of, refund = refund, refunded_share = refunded_share,
  text_of = text_of, with = with,
}
