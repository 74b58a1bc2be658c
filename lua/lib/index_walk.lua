-- index_walk: reads a sorted set in order of its scores, a bounded number of entries at a time, in either direction.
--
-- A position in the walk is a score and a member. The walk continues from there even if that member was removed.

-- Byte order, as Redis orders members. Lua's own string comparison depends on the server's locale.
local function bytes_less(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end

-- The rank of the first entry after (score, member), and the rank after the last entry of that score.
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
    -- If the count cuts off the last group of equal scores, its smallest members are wanted, not its largest.
    append(seen == 1 and i < #below and { below[i - 2] }
      or redis.call('ZRANGEBYSCORE', index, group_score, group_score, 'LIMIT', 0, seen), group_score)
  end
  return entries
end

-- At most `count` entries after (score, member), or the first ones if `score` is empty, with scores from `from` to
-- `to`, both inclusive, or '-inf' and '+inf'. Members with equal scores come in ascending byte order, even if the
-- scores descend. Returns member, score, member, score, ...
local function index_stretch(index, descending, from, to, score, member, count)
  return (descending and descending_stretch or ascending_stretch)(index, from, to, score, member, count)
end

-- The member after that name, or the first one if it is empty. Nil at the end, and if the name is missing: tenants are
-- never removed, and a walk that ends early starts over.
local function member_after(index, name)
  local rank = name == '' and -1 or redis.call('ZRANK', index, name)
  return rank and redis.call('ZRANGE', index, rank + 1, rank + 1)[1] or nil
end

return { bytes_less = bytes_less, index_stretch = index_stretch, member_after = member_after }
