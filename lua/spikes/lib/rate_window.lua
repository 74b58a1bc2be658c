-- rate_window: how often things happen to a tenant, counted in slots of time that lapse by themselves.
-- @include keys, time
--
-- Windows of up to an hour are counted in slots of ten seconds, longer ones in slots of five minutes, so no window has
-- more than 360. A window begins with its first whole slot, and is up to one slot shorter than its name says.
local RATE_SLOTS = { { slot_ms = 10000, longest_ms = 3600000 }, { slot_ms = 300000, longest_ms = 86400000 } }

-- Counts `number` occurrences of a kind at a time. Counts for no window that is longer than `longest_ms`. A damaged
-- counter must not end the script here, after its first write: it counts nothing until it lapses.
local function add_to_rate(tag, owner, kind, at, number, longest_ms)
  for _, slots in ipairs(RATE_SLOTS) do
    local key = keys.rate_count(tag, owner, kind, slots.slot_ms / 1000, time.ms_text(math.floor(at / slots.slot_ms)))
    redis.pcall('INCRBY', key, number)
    redis.pcall('PEXPIRE', key, slots.longest_ms + slots.slot_ms)
    if longest_ms <= slots.longest_ms then
      break
    end
  end
end

-- The slots of the window that ends now, and when it begins.
local function slots_of(window_ms, now)
  local slots = window_ms <= RATE_SLOTS[1].longest_ms and RATE_SLOTS[1] or RATE_SLOTS[2]
  local first = math.floor((now - window_ms) / slots.slot_ms) + 1
  return slots.slot_ms, first, first * slots.slot_ms
end

-- How often something of a kind happened in the window that ends now, and when the window begins.
local function count_in_window(tag, owner, kind, window_ms, now)
  local slot_ms, first, from_ms = slots_of(window_ms, now)
  local key_list = {}
  for slot = first, math.floor(now / slot_ms) do
    key_list[#key_list + 1] = keys.rate_count(tag, owner, kind, slot_ms / 1000, time.ms_text(slot))
  end
  local total = 0
  for _, number in ipairs(redis.call('MGET', unpack(key_list))) do
    total = total + (tonumber(number or 0) or 0)
  end
  return total, from_ms
end

return { add_to_rate = add_to_rate, count_in_window = count_in_window }
