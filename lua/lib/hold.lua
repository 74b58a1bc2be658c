-- hold: the record of one reservation, a hash with short field names so that it stays a compact listpack.
-- @include keys, int64, scopes, record
--
-- st state ACTIVE, COMMITTED, RELEASED or EXPIRED     tn tenant
-- ws ap wf ag ts  the subject's levels as given (workspace, app, workflow, agent, toolset)   dm dimensions, JSON
-- tv the subject's tenant as given, where it differs from tn in case
-- ak an at  action kind, name, tags (JSON)            md metadata, JSON         ik idempotency key of the reserve
-- un unit     am amount held     op overage policy    bm which derived scopes hold it: one digit a scope, root first
-- mt most milliseconds that one lease may last, where a policy said so
-- ca created_at_ms   ex expires_at_ms   gr grace_ms   mx extensions allowed     xc extensions used
-- x1 x2 ...  one a granted extension: its time, '+', the milliseconds granted, and '+' and the API key id where it is not ki
-- ki API key id of the reserve
-- fa ended_at_ms     eb ended by (a key id, or system)     ch charged     cm commit metadata, JSON     rr release reason
-- ev event log entry that told of the end              qa quarantined_at_ms      qr quarantine reason
local HOLD_STATES = { ACTIVE = true, COMMITTED = true, RELEASED = true, EXPIRED = true }

-- A stored count or instant as a number, or nil when the text is none: tonumber alone would take 'inf', 'nan' and '0x1f'.
local function whole_number(text)
  return text and #text <= 15 and string.find(text, '^%d+$') and tonumber(text) or nil
end

-- The record, or nil when there is none. Its figures are text as stored; hold_defect says whether they can be trusted.
-- `fields` are all the values of a packed record, and nil for another.
local function load_hold(key)
  local f = redis.call('HMGET', key, 'st', 'tn', 'un', 'am', 'op', 'bm', 'ex', 'gr', 'ca', 'xc', 'mx', 'ik',
    'ws', 'ap', 'wf', 'ag', 'ts', '0', 'qr')
  local fields
  if f[18] then
    fields = record_fields(key)
    f = { fields.st, fields.tn, fields.un, fields.am, fields.op, fields.bm, fields.ex, fields.gr, fields.ca, fields.xc, fields.mx,
      fields.ik, fields.ws, fields.ap, fields.wf, fields.ag, fields.ts }
  end
  if not f[1] then
    if redis.call('EXISTS', key) == 0 then
      return nil
    end
    return { key = key, state = '' }
  end
  return {
    key = key, state = f[1], tenant = f[2], unit = f[3], amount = f[4], overage_policy = f[5], mask = f[6],
    expires_at = whole_number(f[7]), grace_ms = whole_number(f[8]), created_at = whole_number(f[9]),
    extensions = whole_number(f[10] or '0'), max_extensions = whole_number(f[11] or '0'), idempotency_key = f[12],
    levels = { f[13], f[14], f[15], f[16], f[17] }, fields = fields, quarantined = f[19],
  }
end

-- Why a hold cannot be settled, or nil: its reason words are those of cycles_reservations_quarantined_total.
local function hold_defect(hold)
  if not HOLD_STATES[hold.state] then
    return 'INVALID_STATE'
  end
  if not hold.expires_at or not hold.grace_ms then
    return 'INVALID_EXPIRY'
  end
  if not i64_is_amount(hold.amount) or not hold.unit then
    return 'INVALID_ESTIMATE'
  end
  if not hold.tenant or not hold.mask then
    return 'MISSING_SCOPES'
  end
  hold.scopes = derive_scopes(hold.tenant, hold.levels)
  if #hold.scopes ~= #hold.mask or not string.find(hold.mask, '^[01]*1[01]*$') then
    return 'MALFORMED_SCOPES'
  end
  return nil
end

-- The budgeted scopes of a hold without defects, root first.
local function held_scopes(hold)
  local held = {}
  for i = 1, #hold.scopes do
    if string.sub(hold.mask, i, i) == '1' then
      held[#held + 1] = hold.scopes[i]
    end
  end
  return held
end

local function reclaim_deadline(hold)
  return hold.expires_at + hold.grace_ms
end

-- True when the hold is ACTIVE by its record but past the instant from which nobody may settle it any more.
local function is_overdue(hold, now)
  return hold.state == 'ACTIVE' and hold.expires_at and hold.grace_ms and now > reclaim_deadline(hold)
end
