-- keys: every key name. src/redis/keyspace.ts has to match; a test compares the two.
-- `tag` is the hash tag that starts each key of a partition, {p00} to {pff}.
local keys = {}

function keys.tag_of(key)
  return string.sub(key, 1, 5)
end

-- A key without its tag, and the key of that name in a partition.
function keys.name_of(key)
  return string.sub(key, 6)
end

function keys.of_name(name, tag)
  return tag .. name
end

-- The idempotency key of a direct debit, from the name of its record. No tenant's name has the separator.
function keys.key_of_debit(record)
  return string.match(record, '|(.*)$')
end

function keys.reservation(tag, reservation_id) return tag .. 'r:' .. reservation_id end
function keys.id_in(reservation) return string.match(reservation, '}r:(.*)$') end
function keys.reservation_index(tag, tenant) return tag .. 'rc:' .. tenant end
function keys.ttl_index(tag) return tag .. 'ttl' end
function keys.cleanup_index(tag) return tag .. 'cleanup' end
function keys.quarantine(tag) return tag .. 'quarantine' end
function keys.journal(tag) return tag .. 'journal' end
function keys.journal_places(tag) return tag .. 'journal-places' end
function keys.event_log(tag) return tag .. 'events' end
function keys.tenant_events(tag, tenant) return tag .. 'ev:' .. tenant end
function keys.correlated_events(tag, correlation_id) return tag .. 'co:' .. correlation_id end
function keys.tenant(tag, tenant) return tag .. 't:' .. tenant end
function keys.owned(tag, tenant) return tag .. 'own:' .. tenant end
function keys.evidence_bytes(tag, tenant) return tag .. 'eb:' .. tenant end
function keys.tenant_index(tag) return tag .. 'tenants' end
function keys.budget(tag, unit, scope) return tag .. 'b:' .. unit .. ':' .. scope end
function keys.waiter_queue(tag, unit, scope) return tag .. 'bw:' .. unit .. ':' .. scope end
function keys.waiters(tag, tenant) return tag .. 'waiters:' .. tenant end
function keys.arrivals(tag) return tag .. 'arrivals' end
function keys.budget_index(tag, tenant) return tag .. 'budgets:' .. tenant end
function keys.budget_template(tag, tenant, template_id) return tag .. 'bt:' .. tenant .. '|' .. template_id end
function keys.budget_template_index(tag, tenant) return tag .. 'templates:' .. tenant end
function keys.budget_template_pattern(tag, tenant) return tag .. 'btp:' .. tenant end
function keys.period_index(tag) return tag .. 'periods' end
function keys.period_plans(tag) return tag .. 'period-plans' end
function keys.rolled(tag) return tag .. 'rolled' end
function keys.born(tag) return tag .. 'born' end
function keys.turned(tag) return tag .. 'turned' end
function keys.audit_log(tag) return tag .. 'audit' end
function keys.audit_index(tag, log_name, index) return tag .. log_name .. ':' .. index end
function keys.closing(tag) return tag .. 'closing' end
function keys.api_key(tag, key_id) return tag .. 'k:' .. key_id end
function keys.api_key_index(tag, tenant) return tag .. 'keys:' .. tenant end
function keys.api_key_expiry(tag) return tag .. 'key-expiries' end
function keys.operator(tag, name) return tag .. 'op:' .. name end
function keys.operator_secret(tag, hash) return tag .. 'oh:' .. hash end
function keys.policy(tag, policy_id) return tag .. 'p:' .. policy_id end
function keys.policy_index(tag, tenant) return tag .. 'policies:' .. tenant end
function keys.policy_name(tag, tenant) return tag .. 'pn:' .. tenant end
function keys.policy_pattern(tag, tenant) return tag .. 'pp:' .. tenant end
function keys.policy_rate(tag, policy_id, kind, minute) return tag .. 'pr:' .. policy_id .. ':' .. kind .. ':' .. minute end
function keys.rate_count(tag, owner, kind, slot_s, slot) return tag .. 'rate:' .. owner .. ':' .. kind .. ':' .. slot_s .. ':' .. slot end
function keys.rate_told(tag, owner, name) return tag .. 'rate-told:' .. owner .. ':' .. name end
function keys.burn_rate(tag, window_s, unit, scope) return tag .. 'burn:' .. window_s .. ':' .. unit .. ':' .. scope end
function keys.action_counters(tag, tenant, day) return tag .. 'aq:' .. tenant .. '|' .. day end
function keys.action_counter_index(tag, tenant, day) return tag .. 'aqi:' .. tenant .. '|' .. day end
function keys.run_counters(tag, tenant, run) return tag .. 'ar:' .. tenant .. '|' .. run end
function keys.run_index(tag, tenant) return tag .. 'runs:' .. tenant end
function keys.run_counter_index(tag, tenant) return tag .. 'ari:' .. tenant end
function keys.webhook(tag, subscription_id) return tag .. 'w:' .. subscription_id end
function keys.webhook_index(tag, tenant) return tag .. 'webhooks:' .. tenant end
function keys.bulk_rows(tag, request_id) return tag .. 'bulk-rows:' .. request_id end
function keys.webhook_revision(tag) return tag .. 'webhook-revision' end
function keys.webhook_changes(tag, owner) return tag .. 'webhook-changes:' .. owner end
function keys.webhook_marks(tag, owner) return tag .. 'webhook-marks:' .. owner end
function keys.delivery(tag, ref) return tag .. 'd:' .. ref end
function keys.delivery_index(tag, subscription_id) return tag .. 'wd:' .. subscription_id end
function keys.ordered_queue(tag, queue) return tag .. 'lane:' .. queue end
function keys.ordered_queues(tag) return tag .. 'lanes' end
function keys.retrying(tag) return tag .. 'retrying' end
function keys.outcomes(tag) return tag .. 'outcomes' end

-- The channel of an instance whose reserves wait for funds.
function keys.test_clock() return '{holdfast}test-clock' end

function keys.wake_channel(instance) return 'holdfast:wake:' .. instance end

-- The record of a reserve, which extend keeps alive as long as the hold that it may have to replay.
function keys.reserve_idempotency(tag, tenant, idempotency_key)
  return tag .. 'i:' .. string.sub(redis.sha1hex('r:' .. tenant .. '|' .. idempotency_key), 1, 22)
end

return keys
