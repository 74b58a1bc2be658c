#!lua flags=no-writes
-- ending_credits: the budgets of a partition that lose credits by an instant, in bounded runs.
--
-- KEYS[1]   credit_index   sorted set of 'scope unit', score = the next moment of any credit in ms
-- ARGV[1]   tenant_id      only budgets of this tenant, or empty
-- ARGV[2]   tenants        those of the operator: see lib/confinement
-- ARGV[3]   until_ms       the last end
-- ARGV[4]   walked_ms      where the previous run ended: the moment, or empty to start
-- ARGV[5]   walked_member  its budget
-- ARGV[6]   examine        maximum budgets to examine; none only says whether any follows
-- RETURNS   more:flag walked_ms:text? walked_member? examined:int visible:int damaged_count damaged(budget)*
--           ending(tenant_id scope unit ends_ms:int credits:int remaining)*
-- BOUND     examine budgets, with all their credits
-- EMITS     nothing
-- @include  confinement, credit_record, index_walk, int64, keys, lists, time
--
-- visible counts those of the operator's tenants. No end of a credit is before its budget's next moment, so the index
-- up to until_ms has all of these budgets. ends_ms is the first end, remaining what is left of all credits that end.
-- Damaged budgets are only named, and so is an index of another type.
local index = KEYS[1]
local tenant_id, tenants, until_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local walked_ms, walked_member, examine = ARGV[4], ARGV[5], tonumber(ARGV[6])

local tag, now = keys.tag_of(index), time.now_ms()

-- When the first of a budget's credits ends, how many do by then, and what is left of these; nil if none does.
local function ending_of(credits)
  local first, count, left = nil, 0, 0
  for _, credit in ipairs(credits.list) do
    if credit.is_active and credit.ends and credit.ends > now and credit.ends <= until_ms then
      first, count = math.min(first or credit.ends, credit.ends), count + 1
      left = int64.add(left, credit.left)
    end
  end
  return first, count, left
end

local is_index, entries = pcall(index_walk.index_stretch, index, false, '-inf', ARGV[3], walked_ms, walked_member,
  examine + 1)
if not is_index then
  return { '0', '', '', '0', '0', '1', index }
end
local damaged, ending = {}, {}
local examined, visible = math.min(examine, #entries / 2), 0
for i = 1, 2 * examined, 2 do
  walked_member, walked_ms = entries[i], entries[i + 1]
  local owner = string.match(walked_member, '^tenant:([^/ ]+)')
  local scope, unit = string.match(walked_member, '^(%S+) (%S+)$')
  local is_visible = confinement.may_act_for(tenants, owner)
  visible = visible + (is_visible and 1 or 0)
  if is_visible and owner and unit and (tenant_id == '' or owner == tenant_id) then
    local record = redis.pcall('HMGET', keys.budget(tag, unit, scope), 'status', 'credits')
    local is_whole, credits = pcall(credit_record.parsed, record[2] or '')
    if record[1] == 'CLOSED' then
      credits = nil
    elseif not is_whole then
      damaged[#damaged + 1], credits = walked_member, nil
    end
    local first, count, left
    if credits then
      first, count, left = ending_of(credits)
    end
    if first then
      lists.append_all(ending, { owner, scope, unit, time.ms_text(first), tostring(count), int64.text(left) })
    end
  end
end
local reply = { examined < #entries / 2 and '1' or '0', walked_ms, walked_member, tostring(examined), tostring(visible),
  tostring(#damaged) }
return lists.append_all(lists.append_all(reply, damaged), ending)
