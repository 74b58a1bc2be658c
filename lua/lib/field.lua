-- field: the names of the fields of a reservation's record in Redis.
--
-- The record is a hash. The names are short so that it stays a compact listpack. Scripts use FIELD.<name> wherever they read or write
-- a field: in commands, and as the key of a table that holds fields under their stored names (`fields[FIELD.amount]`).
-- `npm run lint` rejects the stored name itself in any other file. Other kinds of records (subscriptions, deliveries, events, audit
-- rows) have their own names, defined in the parts that write them.
--
-- One table instead of a local for each: Lua allows 200 locals per function and 60 upvalues.
-- A packed record has its values in fields '0', '1', ... instead: see lua/lib/hold_form.lua.
local field = {
  -- ACTIVE, COMMITTED, RELEASED or EXPIRED.
  state = 'st',
  -- Live records only: tenant, levels, unit and scope_mask as one text, as lua/lib/hold_form.lua splits it. If it would be too long for
  -- a compact record, they are separate fields.
  subject = 'su',
  -- Live records only: overage_policy, max_extensions, key_id, action_kind and action_name as one text, likewise.
  constants = 'cn',
  tenant = 'tn',
  -- The subject's tenant as given, if it differs from tenant in case.
  given_tenant = 'tv',
  -- The subject's levels as given.
  workspace = 'ws',
  app = 'ap',
  workflow = 'wf',
  agent = 'ag',
  toolset = 'ts',
  -- JSON.
  dimensions = 'dm',
  action_kind = 'ak',
  action_name = 'an',
  -- JSON.
  action_tags = 'at',
  -- JSON: by what policies can tell actions of a kind apart.
  policy_keys = 'pk',
  -- JSON.
  metadata = 'md',
  -- The idempotency key of the reserve.
  idempotency_key = 'ik',
  -- Live records only: the same of a UUID in lower case, as its bytes in base64url.
  idempotency_uuid = 'iu',
  -- The id of the set that the reservation was granted with.
  reservation_set = 'sg',
  unit = 'un',
  -- The amount held.
  amount = 'am',
  overage_policy = 'op',
  -- Which derived scopes hold the amount: one digit per scope, root first.
  scope_mask = 'bm',
  -- The longest that one lease may last, in ms, if a policy limits it.
  max_ttl_ms = 'mt',
  -- The counters of its run that it counts in, as lua/lib/action_counters.lua writes them.
  run_counters = 'rn',
  -- Unset for AUTO_RELEASE: m MANUAL_CLEANUP, g GRACE_ONLY.
  expiry_policy = 'xp',
  -- What it costs if it expires: an amount up to that held. Unset for nothing. An expired reservation was charged exactly this.
  charge_on_expiry = 'ce',
  -- Instants and durations are in milliseconds.
  created_at = 'ca',
  expires_at = 'ex',
  grace_ms = 'gr',
  max_extensions = 'mx',
  extensions_used = 'xc',
  -- A number from 1 on follows, one per granted extension. The value is its time, '+', the milliseconds granted, and '+' and the API
  -- key id if it differs from that of the reserve.
  extension = 'x',
  -- The API key id of the reserve.
  key_id = 'ki',
  ended_at = 'fa',
  -- An API key id, system or admin.
  ended_by = 'eb',
  charged = 'ch',
  -- JSON.
  commit_metadata = 'cm',
  -- JSON.
  commit_metrics = 'mc',
  release_reason = 'rr',
  -- The event log entry that reports the end.
  end_event = 'ev',
  -- The ids of the envelopes that attest the reserve and the commit or release, in base64url.
  reserve_evidence = 're',
  end_evidence = 'ee',
  quarantined_at = 'qa',
  quarantine_reason = 'qr',
}

-- The subject's levels below the tenant, root first.
field.LEVELS = { field.workspace, field.app, field.workflow, field.agent, field.toolset }

return field
