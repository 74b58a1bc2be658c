-- keys: every key name that a script builds. `npm run generate` makes builders in TypeScript of those functions that
-- only join texts, with the comments above them; what only the service builds stands in src/redis/keyspace.ts.
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
-- The tenant's reservations, a sorted set of ids scored by creation time in ms.
function keys.reservation_index(tag, tenant_id) return tag .. 'rc:' .. tenant_id end
function keys.ttl_index(tag) return tag .. 'ttl' end
-- Live reservations with MANUAL_CLEANUP, which the sweeper ignores, a sorted set of ids scored by reclaim deadline in
-- ms.
function keys.cleanup_index(tag) return tag .. 'cleanup' end
function keys.quarantine(tag) return tag .. 'quarantine' end
-- What was charged and given back, a stream; lua/lib/journal.lua documents its entries.
function keys.journal(tag) return tag .. 'journal' end
-- How far those that follow the journal have come, a hash from the name of the work to the id of the last entry that it
-- has passed.
function keys.journal_places(tag) return tag .. 'journal-places' end
function keys.event_log(tag) return tag .. 'events' end
-- The partition's events of one tenant, a stream with the ids of the event log and the type of each.
function keys.tenant_events(tag, tenant_id) return tag .. 'ev:' .. tenant_id end
-- The partition's events with one correlation id, in the same form.
function keys.correlated_events(tag, correlation_id) return tag .. 'co:' .. correlation_id end
function keys.tenant(tag, tenant_id) return tag .. 't:' .. tenant_id end
-- Counts of what the tenant owns, and its own limits: a hash. Separate from the tenant's record, which may not exist.
function keys.owned(tag, tenant_id) return tag .. 'own:' .. tenant_id end
-- Bytes of the tenant's envelopes by the time in ms from which they are gone: a hash.
function keys.evidence_bytes(tag, tenant_id) return tag .. 'eb:' .. tenant_id end
-- The partition's tenants, a sorted set of ids scored by creation time in ms.
function keys.tenant_index(tag) return tag .. 'tenants' end
function keys.budget(tag, unit, scope) return tag .. 'b:' .. unit .. ':' .. scope end
function keys.unit_and_scope(budget) return string.match(budget, '^b:([^:]+):(.+)$', 6) end
-- Places of the reserves that wait for a budget's funds, a sorted set scored by the number of their arrival; see
-- lua/lib/waking.lua.
function keys.waiter_queue(tag, unit, scope) return tag .. 'bw:' .. unit .. ':' .. scope end
-- The same places of all budgets of a tenant, a sorted set scored by when they lapse, in ms.
function keys.waiters(tag, tenant_id) return tag .. 'waiters:' .. tenant_id end
-- The number of the partition's last reserve that began to wait, a string.
function keys.arrivals(tag) return tag .. 'arrivals' end
-- The tenant's budgets, a sorted set of members as lua/lib/entry_order.lua makes them of scope and unit, all scores 0.
function keys.budget_index(tag, tenant_id) return tag .. 'budgets:' .. tenant_id end
-- A template that makes budgets, a hash. Its id is unique in its tenant.
function keys.budget_template(tag, tenant_id, template_id) return tag .. 'bt:' .. tenant_id .. '|' .. template_id end
-- The tenant's budget templates, a sorted set of ids scored by creation time in ms.
function keys.budget_template_index(tag, tenant_id) return tag .. 'templates:' .. tenant_id end
-- Maps `unit pattern` to the tenant's budget templates with it, oldest first, and `revision` to that of the last
-- change: a hash.
function keys.budget_template_pattern(tag, tenant_id) return tag .. 'btp:' .. tenant_id end
-- The partition's budgets with a period, a sorted set of `scope unit` members scored by the end of the period in ms.
function keys.period_index(tag) return tag .. 'periods' end
-- The partition's budgets with a recurrence, and windows of budgets, scored by when their boundaries must be planned
-- again, in ms.
function keys.period_plans(tag) return tag .. 'period-plans' end
-- Rollovers that no instance has counted in its metrics yet.
function keys.rolled(tag) return tag .. 'rolled' end
-- The same of budgets that templates have made.
function keys.born(tag) return tag .. 'born' end
-- The same of windows that have turned.
function keys.turned(tag) return tag .. 'turned' end
-- A credit, a hash; lua/lib/credit_turn.lua.
function keys.credit(tag, credit_id) return tag .. 'cr:' .. credit_id end
function keys.credit_in(credit) return string.match(credit, '}cr:(.*)$') end
-- The credits of a budget, a sorted set of ids scored by when their records will be gone, in ms; 0 before their end.
function keys.credits_of(tag, unit, scope) return tag .. 'bc:' .. unit .. ':' .. scope end
-- The partition's budgets with credits, a sorted set of `scope unit` members scored by the next moment of any credit in
-- ms.
function keys.credit_index(tag) return tag .. 'credits' end
-- What became of credits since an instance last counted it in its metrics.
function keys.credits_turned(tag) return tag .. 'credits-turned' end
-- The audit log, a stream.
function keys.audit_log(tag) return tag .. 'audit' end
-- A part of an index of either log, a sorted set; lua/lib/audit_index.lua documents its content and the form of
-- `index`.
function keys.audit_index(tag, log, index) return tag .. log .. ':' .. index end
-- Closed tenants whose budgets, keys and so on are still being closed: a hash from the tenant to who closed it.
function keys.closing(tag) return tag .. 'closing' end
function keys.api_key(tag, key_id) return tag .. 'k:' .. key_id end
-- The tenant's API keys, a sorted set of key ids scored by creation time in ms.
function keys.api_key_index(tag, tenant_id) return tag .. 'keys:' .. tenant_id end
-- The partition's API keys that will expire, a sorted set of key ids scored by expiry in ms.
function keys.api_key_expiry(tag) return tag .. 'key-expiries' end
-- A named operator, a hash. All are in the system's partition.
function keys.operator(tag, name) return tag .. 'op:' .. name end
-- Maps the SHA-256 of an operator's key (base64url) to the operator's name.
function keys.operator_secret(tag, secret_hash) return tag .. 'oh:' .. secret_hash end
function keys.policy(tag, policy_id) return tag .. 'p:' .. policy_id end
-- The tenant's policies, a sorted set of policy ids scored by creation time in ms.
function keys.policy_index(tag, tenant_id) return tag .. 'policies:' .. tenant_id end
-- Maps the name of a tenant's policy to its id, a hash.
function keys.policy_name(tag, tenant_id) return tag .. 'pn:' .. tenant_id end
-- Maps a scope pattern to the tenant's active policies with it, a hash.
function keys.policy_pattern(tag, tenant_id) return tag .. 'pp:' .. tenant_id end
-- Requests that a policy with a rate limit has let pass in one minute of Redis' clock, a string. The kind is
-- reservations or commits.
function keys.policy_rate(tag, policy_id, kind, minute)
  return tag .. 'pr:' .. policy_id .. ':' .. kind .. ':' .. minute
end
-- How often something happened to a tenant in a slot of time, a string. The kind is one of lua/spikes; `__system__`
-- owns what has no tenant.
function keys.rate_count(tag, owner, kind, slot_s, slot)
  return tag .. 'rate:' .. owner .. ':' .. kind .. ':' .. slot_s .. ':' .. slot
end
-- Exists for a window after the event that it names, so that the event is emitted once per window.
function keys.rate_told(tag, owner, name) return tag .. 'rate-told:' .. owner .. ':' .. name end
-- How fast a budget was spent in windows of this length, a string; see lua/spikes/check_burn_rates.lua.
function keys.burn_rate(tag, window_s, unit, scope) return tag .. 'burn:' .. window_s .. ':' .. unit .. ':' .. scope end
-- The tenant's counters of actions by calendar windows in one UTC day, by its number: a hash.
function keys.action_counters(tag, tenant_id, day) return tag .. 'aq:' .. tenant_id .. '|' .. day end
-- The fields of that hash in order, a sorted set, all scores 0.
function keys.action_counter_index(tag, tenant_id, day) return tag .. 'aqi:' .. tenant_id .. '|' .. day end
-- The tenant's counters of actions in one run, a hash. The run is percent-encoded.
function keys.run_counters(tag, tenant_id, run) return tag .. 'ar:' .. tenant_id .. '|' .. run end
-- The tenant's runs with counters, a sorted set scored by when they will have lapsed, in ms.
function keys.run_index(tag, tenant_id) return tag .. 'runs:' .. tenant_id end
-- The counters of all runs in order, a sorted set of `run|field`, all scores 0.
function keys.run_counter_index(tag, tenant_id) return tag .. 'ari:' .. tenant_id end
function keys.webhook(tag, subscription_id) return tag .. 'w:' .. subscription_id end
-- The tenant's webhook subscriptions, a sorted set of ids, all scores 0.
function keys.webhook_index(tag, tenant_id) return tag .. 'webhooks:' .. tenant_id end
-- The ids that a bulk action has changed in a partition, a set.
function keys.bulk_rows(tag, request_id) return tag .. 'bulk-rows:' .. request_id end
-- Changes with every change to a subscription of the partition that affects dispatch.
function keys.webhook_revision(tag) return tag .. 'webhook-revision' end
-- The owner's latest changed subscriptions, including deleted ones, a sorted set of ids scored by the revision of the
-- change.
function keys.webhook_changes(tag, owner) return tag .. 'webhook-changes:' .. owner end
-- For each custom utilization threshold, how many active subscriptions of the tenant use it.
function keys.webhook_marks(tag, tenant_id) return tag .. 'webhook-marks:' .. tenant_id end
-- The delivery of an event to a subscription. The ref is the entry id of the event, the subscription's id, and that of
-- a replay if any, joined by colons.
function keys.delivery(tag, ref) return tag .. 'd:' .. ref end
-- The subscription's deliveries, a sorted set of refs scored by creation time in ms.
function keys.delivery_index(tag, subscription_id) return tag .. 'wd:' .. subscription_id end
-- The subscription's deliveries whose last refusal is kept, a sorted set of refs scored by when it came, in ms.
function keys.delivery_answers(tag, subscription_id) return tag .. 'wa:' .. subscription_id end
-- Deliveries of one tenant's events to one subscription that wait for their first attempt, a list of refs, oldest
-- first.
function keys.ordered_queue(tag, queue) return tag .. 'lane:' .. queue end
-- The partition's queues that are not empty, a set of `<subscription_id>:<tenant>`.
function keys.ordered_queues(tag) return tag .. 'lanes' end
-- Deliveries to retry, a sorted set of refs scored by the time of the next attempt in ms.
function keys.retrying(tag) return tag .. 'retrying' end
-- Abandoned deliveries that are not yet counted against their subscriptions, a sorted set of refs scored by the time in
-- ms.
function keys.outcomes(tag) return tag .. 'outcomes' end

-- How far time is ahead of Redis' clock, a hash, if HOLDFAST_TEST_CLOCK is set; see lua/clock/lib/test_clock.lua.
function keys.test_clock() return '{holdfast}test-clock' end

-- The pub/sub channel on which an instance learns which of its waiting reserves has its turn.
function keys.wake_channel(instance) return 'holdfast:wake:' .. instance end

-- The record of a reserve, which extend keeps alive as long as the hold that it may have to replay.
function keys.reserve_idempotency(tag, tenant_id, idempotency_key)
  return tag .. 'i:' .. string.sub(redis.sha1hex('r:' .. tenant_id .. '|' .. idempotency_key), 1, 22)
end

return keys
