-- observe: whether a reserve is only observed, that is evaluated like a dry run and told as an event. OBSERVE MODE
-- EVALUATION RULES in cycles-protocol-extensions-v0.1.26.
-- @include denial, event_writer
--
-- `asked` is what a request says: its own mode or nothing, and where allowed reserves are sampled, a bar and the rate
-- if this one was chosen, or a hyphen if it was not.
local MODES = { OBSERVE = 'OBSERVED', ENFORCE = 'ENFORCED', DISABLED = 'ENFORCED' }
local NOT_CHOSEN = '-'

-- OBSERVED, ENFORCED, or nil if neither the request nor the tenant ever named a mode, which enforces as well. The
-- request's own mode wins over the tenant's.
local function observance_of(asked, tenant)
  local mode = asked ~= '' and string.match(asked, '^%u+') or tenant and tenant.observe_mode
  if not mode then
    return nil
  end
  return MODES[mode] or error('corrupt tenant record: its observe_mode is not DISABLED, OBSERVE or ENFORCE')
end

-- Emits reservation.observed_denied. The arguments are those of emit_denial in lua/ledger/lib/denial.lua.
local function emit_observed_denial(tag, tenant_id, leaf, origin, unit, amount, refusal, fields)
  local scope, cause, figures =
    denial.denial_event(tenant_id, leaf, origin, unit, 'estimated_amount', amount, refusal, fields, true)
  figures[#figures + 1], figures[#figures + 2] = 'observe_mode', 'OBSERVE'
  event_writer.append_event(tag, 'reservation.observed_denied', tenant_id, scope, cause, figures)
end

-- The same for all observed reserves that would have been allowed in a run.
local function run_correlation(tenant_id, scope, action_facts)
  local run = string.match(action_facts, '^[^|]*|([^|]*)')
  return run and run ~= '' and 'observed:' .. redis.sha1hex(table.concat({ tenant_id, scope, run }, '\31')) or nil
end

-- Emits reservation.observed_allowed, unless sampling leaves this reserve out. `fields` are the request's field and
-- value pairs.
local function emit_observed_allowed(tag, tenant_id, scope, origin, asked, unit, amount, caps, fields, action_facts)
  local rate = string.match(asked, '|(.*)$') or ''
  if rate == NOT_CHOSEN then
    return
  end
  local figures = { 'decision', caps and 'ALLOW_WITH_CAPS' or 'ALLOW', 'unit', unit, 'estimated_amount', amount,
    'observe_mode', 'OBSERVE', 'caps_applied', caps or '', 'sample_rate', rate }
  denial.tell(figures, fields)
  event_writer.append_event(tag, 'reservation.observed_allowed', tenant_id, scope,
    { actor = origin.actor, key = origin.key, request = origin.request, trace = origin.trace,
      correlation = run_correlation(tenant_id, scope, action_facts) }, figures)
end

return {
  emit_observed_allowed = emit_observed_allowed, emit_observed_denial = emit_observed_denial,
  observance_of = observance_of,
}
