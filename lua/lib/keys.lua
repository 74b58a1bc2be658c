-- keys: every key name. src/redis/keyspace.ts has to match; a test compares the two.
-- `tag` is the hash tag that starts each key of a partition, {p00} to {pff}.
local function tag_of_key(key)
  return string.sub(key, 1, 5)
end

local function reservation_key(tag, reservation_id) return tag .. 'r:' .. reservation_id end
local function reservation_index_key(tag, tenant) return tag .. 'rc:' .. tenant end
local function ttl_index_key(tag) return tag .. 'ttl' end
local function cleanup_index_key(tag) return tag .. 'cleanup' end
local function quarantine_key(tag) return tag .. 'quarantine' end
local function ended_key(tag) return tag .. 'ended' end
local function event_log_key(tag) return tag .. 'events' end
local function tenant_events_key(tag, tenant) return tag .. 'ev:' .. tenant end
local function correlated_events_key(tag, correlation_id) return tag .. 'co:' .. correlation_id end
local function tenant_key(tag, tenant) return tag .. 't:' .. tenant end
local function owned_key(tag, tenant) return tag .. 'own:' .. tenant end
local function evidence_bytes_key(tag, tenant) return tag .. 'eb:' .. tenant end
local function tenant_index_key(tag) return tag .. 'tenants' end
local function budget_key(tag, unit, scope) return tag .. 'b:' .. unit .. ':' .. scope end
local function waiter_queue_key(tag, unit, scope) return tag .. 'bw:' .. unit .. ':' .. scope end
local function waiters_key(tag, tenant) return tag .. 'waiters:' .. tenant end
local function arrivals_key(tag) return tag .. 'arrivals' end
local function budget_index_key(tag, tenant) return tag .. 'budgets:' .. tenant end
local function period_index_key(tag) return tag .. 'periods' end
local function period_plans_key(tag) return tag .. 'period-plans' end
local function rolled_key(tag) return tag .. 'rolled' end
local function turned_key(tag) return tag .. 'turned' end
local function clock_deadlines_key(tag, tenant) return tag .. 'ttl:' .. tenant end
local function clock_cleanup_key(tag, tenant) return tag .. 'cleanup:' .. tenant end
local function clock_periods_key(tag, tenant) return tag .. 'periods:' .. tenant end
local function clock_plans_key(tag, tenant) return tag .. 'period-plans:' .. tenant end
local function clock_lapses_key(tag, tenant) return tag .. 'lapses:' .. tenant end
local function test_clock_key(tag, clock_id) return tag .. 'clock:' .. clock_id end
local function test_clock_tenants_key(tag, clock_id) return tag .. 'clock-tenants:' .. clock_id end
local function audit_log_key(tag) return tag .. 'audit' end
local function audit_index_key(tag, log_name, index) return tag .. log_name .. ':' .. index end
local function closing_key(tag) return tag .. 'closing' end
local function api_key_key(tag, key_id) return tag .. 'k:' .. key_id end
local function api_key_index_key(tag, tenant) return tag .. 'keys:' .. tenant end
local function api_key_expiry_key(tag) return tag .. 'key-expiries' end
local function policy_key(tag, policy_id) return tag .. 'p:' .. policy_id end
local function policy_index_key(tag, tenant) return tag .. 'policies:' .. tenant end
local function policy_name_key(tag, tenant) return tag .. 'pn:' .. tenant end
local function policy_pattern_key(tag, tenant) return tag .. 'pp:' .. tenant end
local function policy_rate_key(tag, policy_id, kind, minute) return tag .. 'pr:' .. policy_id .. ':' .. kind .. ':' .. minute end
local function rate_count_key(tag, owner, kind, slot_s, slot) return tag .. 'rate:' .. owner .. ':' .. kind .. ':' .. slot_s .. ':' .. slot end
local function rate_told_key(tag, owner, name) return tag .. 'rate-told:' .. owner .. ':' .. name end
local function burn_rate_key(tag, window_s, unit, scope) return tag .. 'burn:' .. window_s .. ':' .. unit .. ':' .. scope end
local function action_counters_key(tag, tenant, day) return tag .. 'aq:' .. tenant .. '|' .. day end
local function action_counter_index_key(tag, tenant, day) return tag .. 'aqi:' .. tenant .. '|' .. day end
local function run_counters_key(tag, tenant, run) return tag .. 'ar:' .. tenant .. '|' .. run end
local function run_index_key(tag, tenant) return tag .. 'runs:' .. tenant end
local function run_counter_index_key(tag, tenant) return tag .. 'ari:' .. tenant end
local function webhook_key(tag, subscription_id) return tag .. 'w:' .. subscription_id end
local function webhook_index_key(tag, tenant) return tag .. 'webhooks:' .. tenant end
local function bulk_rows_key(tag, request_id) return tag .. 'bulk-rows:' .. request_id end
local function webhook_revision_key(tag) return tag .. 'webhook-revision' end
local function webhook_changes_key(tag, owner) return tag .. 'webhook-changes:' .. owner end
local function webhook_marks_key(tag, owner) return tag .. 'webhook-marks:' .. owner end
local function delivery_key(tag, ref) return tag .. 'd:' .. ref end
local function delivery_index_key(tag, subscription_id) return tag .. 'wd:' .. subscription_id end
local function ordered_queue_key(tag, queue) return tag .. 'lane:' .. queue end
local function ordered_queues_key(tag) return tag .. 'lanes' end
local function retrying_key(tag) return tag .. 'retrying' end
local function outcomes_key(tag) return tag .. 'outcomes' end

-- The channel of an instance whose reserves wait for funds.
local function wake_channel(instance) return 'holdfast:wake:' .. instance end

-- The record of a reserve, which extend keeps alive as long as the hold that it may have to replay.
local function reserve_idempotency_key(tag, tenant, idempotency_key)
  return tag .. 'i:' .. string.sub(redis.sha1hex('r:' .. tenant .. '|' .. idempotency_key), 1, 22)
end
