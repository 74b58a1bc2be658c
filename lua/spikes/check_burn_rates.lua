#!lua
-- check_burn_rates: compare how fast a tenant's budgets are spent with how fast they were spent before, a bounded run
-- at a time.
--
-- KEYS[1]   event_log      stream
-- KEYS[2]   budget_index   sorted set of the tenant's budgets
-- KEYS[3]   checked        string that lives until the tenant's budgets are due again
-- ARGV[1]   tenant
-- ARGV[2]   after          the budget that ended the run before, or empty
-- ARGV[3]   limit          budgets a run
-- ARGV[4]   rest_ms        how long the tenant is left alone after its last budget, or empty
-- ARGV[...] for each window: its seconds, and the lowest multiple of the baseline that somebody watches for
-- RETURNS   RESTS | CHECKED next? emitted:int
-- BOUND     limit budgets, 20 windows for each
-- EMITS     budget.burn_rate_anomaly
-- @include  event_writer, keys, listing, scope_tree, time
--
-- What is known of a budget and window: the time and `spent` of the last look, the average spent a minute in the
-- windows before, and how many these were. A look after a whole window compares what the window spent with that
-- average, and then adds it. So each window is judged once, whoever looks. Doubles are precise enough: only the event
-- depends on the rates. The text lapses when nobody looks.
local event_log, budget_index, checked = KEYS[1], KEYS[2], KEYS[3]
local tenant, after, limit, rest_ms, first_window = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], 5
-- The baseline is an average over about as many windows. It is not judged before it has the least.
local BASELINE_WINDOWS, LEAST_WINDOWS = 12, 3
-- Windows after which a budget that nobody looks at is forgotten.
local KEPT_WINDOWS = 4

local tag = keys.tag_of(event_log)
local now = time.now_ms()
if after == '' and redis.call('EXISTS', checked) == 1 then
  return { 'RESTS' }
end
local members = listing.members_after_name(budget_index, after, limit)
local known, anomalies = {}, {}

-- A damaged budget is not judged. The operations on it report it.
local function figures_of(unit, scope)
  local record = redis.pcall('HMGET', keys.budget(tag, unit, scope), 'spent', 'remaining', 'status')
  local spent, remaining = tonumber(record[1] or ''), tonumber(record[2] or '')
  return record[3] ~= 'CLOSED' and spent and remaining
    and { spent = spent, spent_text = record[1], remaining = remaining }
end

local function keep(key, window_ms, spent, baseline, windows)
  known[#known + 1] = { key, table.concat({ time.ms_text(now), spent, string.format('%.17g', baseline), windows }, ' '),
    window_ms }
end

local function judge(unit, scope, figures, window_s, lowest)
  local window_ms, key = window_s * 1000, keys.burn_rate(tag, time.ms_text(window_s), unit, scope)
  local text = redis.pcall('GET', key)
  local at, spent, baseline, windows = string.match(type(text) == 'string' and text or '', '^(%d+) (%d+) (%S+) (%d+)$')
  baseline, windows = tonumber(baseline or ''), tonumber(windows or '')
  if not (baseline and windows) then
    if figures.spent > 0 then
      keep(key, window_ms, figures.spent_text, 0, 0)
    end
    return
  end
  local elapsed_ms, gone = now - tonumber(at), figures.spent - tonumber(spent)
  if elapsed_ms < window_ms then
    return
  end
  if gone < 0 then
    -- A reset of what was spent. What came before it and after it cannot be told apart.
    keep(key, window_ms, figures.spent_text, baseline, windows)
    return
  end
  local rate = gone * 60000 / elapsed_ms
  local ratio = baseline > 0 and tonumber(string.format('%.4f', rate / baseline)) or 0
  if windows >= LEAST_WINDOWS and ratio >= lowest then
    anomalies[#anomalies + 1] = { scope, { 'unit', unit, 'current_rate', string.format('%.4f', rate), 'baseline_rate',
      string.format('%.4f', baseline), 'multiplier', string.format('%.4f', ratio), 'window_seconds',
      time.ms_text(window_s), 'projected_exhaustion_minutes',
      string.format('%.2f', math.max(0, figures.remaining) / rate) } }
  end
  local counted = math.min(windows, BASELINE_WINDOWS - 1)
  keep(key, window_ms, figures.spent_text, (baseline * counted + rate) / (counted + 1), counted + 1)
end

for _, member in ipairs(members) do
  local scope, unit = scope_tree.budget_of_member(member)
  local figures = scope and figures_of(unit, scope)
  for i = first_window, figures and #ARGV or 0, 2 do
    judge(unit, scope, figures, tonumber(ARGV[i]), tonumber(ARGV[i + 1]))
  end
end
event_writer.require_event_log(tag)

-- Nothing is refused below this line.
for _, entry in ipairs(known) do
  redis.call('SET', entry[1], entry[2], 'PX', time.ms_text(entry[3] * KEPT_WINDOWS))
end
for _, anomaly in ipairs(anomalies) do
  event_writer.append_event(tag, 'budget.burn_rate_anomaly', tenant, anomaly[1], { actor = 'system' }, anomaly[2])
end
local more = #members == limit
if not more and rest_ms ~= '' then
  redis.call('SET', checked, '1', 'PX', rest_ms)
end
return { 'CHECKED', more and members[limit] or '', time.ms_text(#anomalies) }
