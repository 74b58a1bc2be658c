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
-- What not every script needs is named by the caller and comes back under its short name, as stored: each field that is read
-- costs about a third of a microsecond. `fields` are all the values of a packed record, and nil for another.
local function load_hold(key, ...)
  local f = redis.call('HMGET', key, 'st', 'tn', 'un', 'am', 'bm', 'ex', 'gr', 'ws', 'ap', 'wf', 'ag', 'ts', ...)
  if not f[1] then
    if redis.call('EXISTS', key) == 0 then
      return nil
    end
    return { key = key, state = '' }
  end
  local fields
  if not f[2] and redis.call('HEXISTS', key, '0') == 1 then
    fields = record_fields(key)
    f = { fields.st, fields.tn, fields.un, fields.am, fields.bm, fields.ex, fields.gr, fields.ws, fields.ap, fields.wf, fields.ag, fields.ts }
  end
  local hold = {
    key = key, state = f[1], tenant = f[2], unit = f[3], amount = f[4], mask = f[5],
    expires_at = whole_number(f[6]), grace_ms = whole_number(f[7]),
    levels = { f[8], f[9], f[10], f[11], f[12] }, fields = fields,
  }
  for i = 1, select('#', ...) do
    local name = select(i, ...)
    hold[name] = fields and fields[name] or f[12 + i]
  end
  return hold
end

-- Why a hold cannot be settled, or nil: the reason words are those of cycles_reservations_quarantined_total.
local function terms_defect(hold)
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
  return nil
end

-- The same of its scopes, which it derives; only for a hold whose terms are sound.
local function scopes_defect(hold)
  hold.scopes = derive_scopes(hold.tenant, hold.levels)
  if #hold.scopes ~= #hold.mask or not string.find(hold.mask, '^[01]*1[01]*$') then
    return 'MALFORMED_SCOPES'
  end
  return nil
end

local function hold_defect(hold)
  return terms_defect(hold) or scopes_defect(hold)
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
