#!lua flags=allow-oom
-- advance_tenant: let the time of a tenant with a test clock pass, up to an instant, or as far as one run may go.
-- allow-oom: what expires and rolls over gives budget back.
--
-- KEYS[1]   tenant           hash
-- ARGV[1]   tenant_id
-- ARGV[2]   clock_id
-- ARGV[3]   to_ms
-- ARGV[4]   limit            what the run may do: a hold that expires counts one, a budget that rolls over four
-- ARGV[5]   retention_ms     how long an ended record is kept for the audit trail
-- ARGV[6]   request_id
-- ARGV[7]   trace            trace id and flags
-- RETURNS   ADVANCED clock_now_ms more:flag rolled:int outcome_count outcomes(word detail? second_detail?)* damaged_count damaged(scope unit)*
--           unplanned(scope unit window? recurrence? ends?)* | NOT_FOUND
-- BOUND     limit holds, budgets and idempotency records
-- EMITS     those of the expiry transition; those of a rollover
-- @include  due_rollovers, expiry, keys, time
--
-- The run goes from instant to instant at which something is due, in order. At each it sets the time and makes the transitions that the
-- sweeper and the job for idle budgets would make then. So wherever it is interrupted, everything up to the tenant's time is done or still
-- in its index, and the next run continues there. Runs of several callers may interleave.
-- A hold is due a millisecond after its reclaim deadline. unplanned are budgets for lua/governance/plan_periods.lua, or windows for
-- plan_window.lua: their time does not pass before they have boundaries again.
local tenant_record = KEYS[1]
local tenant_id, clock_id, to_ms, limit, retention_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local origin = { request = ARGV[6], trace = ARGV[7] }
local ROLLOVER_WEIGHT = 4

local tag = keys.tag_of(tenant_record)
local deadlines, periods, plans = keys.clock_deadlines(tag, tenant_id), keys.clock_periods(tag, tenant_id), keys.clock_plans(tag, tenant_id)
local lapses = keys.clock_lapses(tag, tenant_id)
local clock = redis.call('HMGET', tenant_record, 'clock_id', 'clock_now')
local now = tonumber(clock[2] or '')
if clock[1] ~= clock_id or not now then
  return { 'NOT_FOUND' }
end
local outcomes, damaged, unplanned, rolled, left = {}, {}, {}, 0, limit

local function head(index)
  return tonumber(redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')[2] or math.huge)
end

-- When something is due next.
local function next_instant()
  return math.min(head(deadlines) + 1, head(periods), head(plans))
end

local function due_at(index, count)
  return redis.call('ZRANGEBYSCORE', index, '-inf', time.ms_text(now), 'LIMIT', 0, count)
end

-- Nothing is refused below this line.
local function set_time(instant)
  if instant > now then
    now = instant
    redis.call('HSET', tenant_record, 'clock_now', time.ms_text(now))
  end
end

local function expire_due()
  local due = redis.call('ZRANGEBYSCORE', deadlines, '-inf', '(' .. time.ms_text(now), 'LIMIT', 0, left)
  if #due > 0 then
    left = left - #due
    for _, text in ipairs(expiry.flat_outcomes(expiry.reclaim(tag, due, now, retention_ms, origin, deadlines))) do
      outcomes[#outcomes + 1] = text
    end
  end
end

local function roll_over_due()
  local due = due_at(periods, math.max(0, math.ceil(left / ROLLOVER_WEIGHT)))
  left = left - #due * ROLLOVER_WEIGHT
  local harmed, count = due_rollovers.roll_over_members(tag, periods, due, now)
  rolled = rolled + count
  for _, text in ipairs(harmed) do
    damaged[#damaged + 1] = text
  end
end

-- Forgets the outcomes of requests whose records lapse, and returns whether it was all.
local function let_records_lapse()
  local lapsed = due_at(lapses, limit)
  if #lapsed > 0 then
    redis.call('ZREM', lapses, unpack(lapsed))
    redis.call('UNLINK', unpack(lapsed))
  end
  return #lapsed < limit
end

local following = next_instant()
while following <= to_ms and left > 0 and #unplanned == 0 do
  set_time(following)
  due_rollovers.append_unplanned(unplanned, damaged, tag, plans, due_at(plans, limit), now)
  if #unplanned == 0 then
    expire_due()
    roll_over_due()
  end
  following = next_instant()
end
local more = following <= to_ms
if not more then
  set_time(to_ms)
end
more = not let_records_lapse() or more
local reply = { 'ADVANCED', time.ms_text(now), more and '1' or '0', tostring(rolled) }
for _, list in ipairs({ { outcomes, 3 }, { damaged, 2 } }) do
  reply[#reply + 1] = tostring(#list[1] / list[2])
  for _, text in ipairs(list[1]) do
    reply[#reply + 1] = text
  end
end
for _, text in ipairs(unplanned) do
  reply[#reply + 1] = text
end
return reply
