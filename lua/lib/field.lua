-- field: the one table of the fields of a reservation's record in Redis, and of where else each of them goes.
--
-- The record is a hash. The names are short so that it stays a compact listpack. Scripts use FIELD.<name> wherever they
-- read or write a field: in commands, and as the key of a table that holds fields under their stored names
-- (`fields[FIELD.amount]`).
-- `npm run lint` rejects the stored name itself in any other file. Other kinds of records (subscriptions, deliveries,
-- events, audit rows) have their own names, defined in the parts that write them.
--
-- A packed record has its values in fields '0', '1', ... instead: see lua/lib/hold_form.lua. It keeps a field that is
-- not packed as it is.
--
-- `npm run generate` reads the rows, one a line, for TypeScript, and writes stored names in place of FIELD.<name> in
-- the library. A row has the name, the stored name, and the kind, which says what a damaged record may show of it
-- (lua/lib/damage.lua) and how requests and answers have it: text; form (of other fields); json (an object), list (of
-- texts) and map (an object of texts), all three stored as JSON; amount (int64); time (an instant or a duration in ms);
-- count; entry (an id in the event log); other, which is judged by itself. Further members:
-- - of: the part of a reserve's request that has it, and of answers: action, subject or request. There it is called
-- `member`, if not by its
--   name. `most` is its greatest length in characters, and that of each text in a list or map. `otherwise` stands for a
--   damaged value.
-- - row: lists of reservations show it. archived: the archive of charges has it.
-- - long: it may have kilobytes. It is not read where many records are, and no list's row has it.
-- - untold: events of denied and observed reserves lack it. unattested: so do the requests in evidence.
local ROWS = {
  -- ACTIVE, COMMITTED, RELEASED or EXPIRED.
  { 'state', 'st', 'other', row = true, archived = true },
  -- Live records only: tenant, levels, unit and scope_mask as one text, as lua/lib/hold_form.lua splits it. If it would
  -- be too long for a compact record, they are separate fields.
  { 'subject', 'su', 'form' },
  -- Live records only: overage_policy, max_extensions, key_id, action_kind and action_name as one text, likewise.
  { 'constants', 'cn', 'form' },
  { 'tenant', 'tn', 'other', row = true, archived = true },
  -- The subject's tenant as given, if it differs from tenant in case.
  { 'given_tenant', 'tv', 'other', row = true },
  -- The subject's levels as given.
  { 'workspace', 'ws', 'other', row = true, archived = true },
  { 'app', 'ap', 'other', row = true, archived = true },
  { 'workflow', 'wf', 'other', row = true, archived = true },
  { 'agent', 'ag', 'other', row = true, archived = true },
  { 'toolset', 'ts', 'other', row = true, archived = true },
  { 'action_kind', 'ak', 'text', of = 'action', member = 'kind', most = 64, otherwise = 'unknown', row = true,
  archived = true },
  { 'action_name', 'an', 'text', of = 'action', member = 'name', most = 256, otherwise = 'unknown', row = true,
  archived = true },
  { 'action_tags', 'at', 'list', of = 'action', member = 'tags', most = 64, row = true, archived = true },
  -- By what policies can tell actions of a kind apart.
  { 'policy_keys', 'pk', 'json', of = 'action', row = true, unattested = true },
  { 'dimensions', 'dm', 'map', of = 'subject', most = 256, row = true, archived = true },
  { 'metadata', 'md', 'json', of = 'request', long = true, archived = true, untold = true },
  -- The idempotency key of the reserve.
  { 'idempotency_key', 'ik', 'text', row = true, archived = true },
  -- Live records only: the same of a UUID in lower case, as its bytes in base64url.
  { 'idempotency_uuid', 'iu', 'text' },
  -- The id of the set that the reservation was granted with.
  { 'reservation_set', 'sg', 'text', row = true, untold = true },
  { 'unit', 'un', 'other', row = true, archived = true },
  -- The amount held.
  { 'amount', 'am', 'amount', row = true, archived = true },
  { 'overage_policy', 'op', 'other', archived = true },
  -- Which derived scopes hold the amount: one digit per scope, root first.
  { 'scope_mask', 'bm', 'other', archived = true },
  -- The longest that one lease may last, if a policy limits it.
  { 'max_ttl_ms', 'mt', 'time' },
  -- The counters of its run that it counts in, as lua/lib/action_counters.lua writes them.
  { 'run_counters', 'rn', 'text' },
  -- Unset for AUTO_RELEASE: m MANUAL_CLEANUP, g GRACE_ONLY.
  { 'expiry_policy', 'xp', 'other' },
  -- What it costs if it expires: an amount up to that held. Unset for nothing. An expired reservation was charged
  -- exactly this.
  { 'charge_on_expiry', 'ce', 'amount', untold = true },
  { 'created_at', 'ca', 'time', row = true, archived = true },
  { 'expires_at', 'ex', 'time', row = true },
  { 'grace_ms', 'gr', 'time' },
  { 'max_extensions', 'mx', 'count' },
  { 'extensions_used', 'xc', 'other' },
  -- A number from 1 on follows, one per granted extension. The value is its time, '+', the milliseconds granted, and
  -- '+' and the API key id if it differs from that of the reserve.
  { 'extension', 'x', 'other' },
  -- The API key id of the reserve.
  { 'key_id', 'ki', 'text', archived = true },
  { 'ended_at', 'fa', 'time', row = true, archived = true },
  -- An API key id, system or admin.
  { 'ended_by', 'eb', 'text', archived = true },
  { 'charged', 'ch', 'amount', row = true },
  -- How much of that was refunded, or of the charge of an expiry. Unset for nothing.
  { 'refunded', 'rf', 'amount', row = true },
  -- Which credits paid how much of that, as lua/lib/credit_record.lua writes it. Unset if none did.
  { 'credits', 'cr', 'text', archived = true },
  { 'commit_metadata', 'cm', 'json', long = true, archived = true },
  { 'commit_metrics', 'mc', 'json', long = true },
  { 'release_reason', 'rr', 'text', archived = true },
  -- The event log entry that reports the end.
  { 'end_event', 'ev', 'entry' },
  -- The ids of the envelopes that attest the reserve and the commit or release, in base64url.
  { 'reserve_evidence', 're', 'text' },
  { 'end_evidence', 'ee', 'text' },
  { 'quarantined_at', 'qa', 'time' },
  { 'quarantine_reason', 'qr', 'text' },
}

-- Stored names: those with each of these members in their rows, the others than long ones, and the kind of each.
local field = { ROW = {}, ARCHIVED = {}, LONG = {}, SHORT = {}, UNTOLD = {}, KINDS = {} }
for i = 1, #ROWS do
  local row = ROWS[i]
  local stored = row[2]
  field[row[1]], field.KINDS[stored], field.UNTOLD[stored] = stored, row[3], row.untold
  field.ROW[#field.ROW + 1] = row.row and stored
  field.ARCHIVED[#field.ARCHIVED + 1] = row.archived and stored
  local lengths = row.long and field.LONG or field.SHORT
  lengths[#lengths + 1] = stored
end

-- The subject's levels below the tenant, root first.
field.LEVELS = { field.workspace, field.app, field.workflow, field.agent, field.toolset }

return field
