-- index_walk: a sorted set read in the order of its scores, a bounded stretch at a time, either way.
--
-- A place in the walk is named by its score and member alone, and the walk goes on from there even if that member is gone.

-- Byte order, as Redis orders the members: Lua's own comparison of strings follows the locale of the server.
local function bytes_less(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end

-- The rank of the first entry that stands behind (score, member), and the rank behind the last entry of that score.
local function ranks_behind(index, score, member)
  local low = redis.call('ZCOUNT', index, '-inf', '(' .. score)
  local stop = low + redis.call('ZCOUNT', index, score, score)
  local high = stop
  while low < high do
    local middle = math.floor((low + high) / 2)
    if bytes_less(member, redis.call('ZRANGE', index, middle, middle)[1]) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low, stop
end

local function ascending_stretch(index, from, to, score, member, count)
  if score == '' then
    return redis.call('ZRANGEBYSCORE', index, from, to, 'WITHSCORES', 'LIMIT', 0, count)
  end
  local start = ranks_behind(index, score, member)
  local entries = redis.call('ZRANGE', index, start, start + count - 1, 'WITHSCORES')
  while #entries > 0 and tonumber(entries[#entries]) > tonumber(to) do
    table.remove(entries)
    table.remove(entries)
  end
  return entries
end

local function descending_stretch(index, from, to, score, member, count)
  local entries = {}
  local function append(members, their_score)
    for _, id in ipairs(members) do
      entries[#entries + 1] = id
      entries[#entries + 1] = their_score
    end
  end
  if score ~= '' then
    local start, stop = ranks_behind(index, score, member)
    if start < stop then
      append(redis.call('ZRANGE', index, start, math.min(stop, start + count) - 1), score)
    end
    to = '(' .. score
  end
  local missing = count - #entries / 2
  if missing == 0 then
    return entries
  end
  local below = redis.call('ZREVRANGEBYSCORE', index, to, from, 'WITHSCORES', 'LIMIT', 0, missing)
  local i = 1
  while i < #below do
    local group_score, seen = below[i + 1], 0
    while below[i + 1] == group_score do
      i, seen = i + 2, seen + 1
    end
    -- The stretch may end inside the last group, whose smallest members it must hold and not its largest.
    append(seen == 1 and i < #below and { below[i - 2] }
      or redis.call('ZRANGEBYSCORE', index, group_score, group_score, 'LIMIT', 0, seen), group_score)
  end
  return entries
end

-- At most `count` entries with scores from `from` to `to`, both inclusive or '-inf' and '+inf', that stand behind
-- (score, member), or the first ones when `score` is empty. Members of one score come in ascending byte order, also when the
-- scores descend. Returns member, score, member, score, ...
local function index_stretch(index, descending, from, to, score, member, count)
  return (descending and descending_stretch or ascending_stretch)(index, from, to, score, member, count)
end
