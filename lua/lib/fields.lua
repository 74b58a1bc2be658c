-- fields: the names that the fields of a reservation's record have in Redis.
--
-- The record is a hash. Its names are short so that it stays a compact listpack. Scripts name a field FIELD.<name> wherever it is
-- read or written: in commands, and as the key of a table that holds fields under their stored names (`fields[FIELD.amount]`).
-- `npm run lint` refuses the stored name itself in any other file. Records of other kinds (subscriptions, deliveries, events, audit
-- rows) have names of their own, which stand in the parts that write them.
--
-- One table and not a local for each: Lua allows 200 locals in a function and 60 locals from outside of it.
-- A packed record has its values in fields '0', '1', ... instead: see lua/lib/record.lua.
local FIELD = {
  -- ACTIVE, COMMITTED, RELEASED or EXPIRED.
  state = 'st',
  -- Of a live record: tenant, levels, unit and scope_mask as one text, as lua/lib/record.lua splits it. Where it would be too long
  -- for a compact record, they are fields of their own.
  subject = 'su',
  tenant = 'tn',
  -- The subject's tenant as given, where it differs from tenant in case.
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
  -- JSON.
  metadata = 'md',
  -- The idempotency key of the reserve.
  idempotency_key = 'ik',
  unit = 'un',
  -- The amount held.
  amount = 'am',
  overage_policy = 'op',
  -- Which derived scopes hold the amount: one digit a scope, root first.
  scope_mask = 'bm',
  -- The most milliseconds that one lease may last, where a policy said so.
  max_ttl_ms = 'mt',
  -- Where it is not AUTO_RELEASE: m MANUAL_CLEANUP, g GRACE_ONLY.
  expiry_policy = 'xp',
  -- Instants and durations are milliseconds.
  created_at = 'ca',
  expires_at = 'ex',
  grace_ms = 'gr',
  max_extensions = 'mx',
  extensions_used = 'xc',
  -- With a number from 1 on behind it, one a granted extension: its time, '+', the milliseconds granted, and '+' and the API key id
  -- where it is not that of the reserve.
  extension = 'x',
  -- The API key id of the reserve.
  key_id = 'ki',
  ended_at = 'fa',
  -- An API key id, system or admin.
  ended_by = 'eb',
  charged = 'ch',
  -- JSON.
  commit_metadata = 'cm',
  release_reason = 'rr',
  -- The event log entry that told of the end.
  end_event = 'ev',
  quarantined_at = 'qa',
  quarantine_reason = 'qr',
}

-- The subject's levels below the tenant, from the root on.
local LEVEL_FIELDS = { FIELD.workspace, FIELD.app, FIELD.workflow, FIELD.agent, FIELD.toolset }
