#!lua flags=no-writes
-- verify_journal: the entries of a partition's journal about a tenant's charges, the ends of reservations and direct
-- debits, with what the records say, in bounded pages.
--
-- KEYS[1]   journal        stream
-- ARGV[1]   tenant_id
-- ARGV[2]   after          the last entry of the page before, or empty
-- ARGV[3]   limit          maximum entries to examine
-- RETURNS   passed_ms:int next? entries(charge_id charged expected? refunded? total?)*
-- BOUND     limit entries, 256 KiB of them; up to three events for each
-- EMITS     nothing
-- @include  debit_record, field, hold_record, journal, keys, stream_walk
--
-- passed_ms is the time of the last entry that packing has passed, and next is the last entry of this page, empty at
-- the end of the journal.
-- expected is what the record was charged, empty while it is live, and total what of that is refunded. refunded is the
-- same as an entry about a refund says. The record of a debit is its event, and the last event about it says what is
-- refunded. Entries whose record is gone or damaged are left out, and so are those of mended records, at whose time
-- nothing ended.
local stream = KEYS[1]
local tenant_id, after, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])

local tag = keys.tag_of(stream)
local passed = redis.call('HGET', keys.journal_places(tag), 'packed') or ''
local reply = { string.match(passed, '^%d+') or '0', '' }

-- What the record of a charge says, or nil: its id, its charge and what of that is refunded.
local function recorded(fields)
  local event = stream_walk.value_of(fields, 'event')
  if event then
    local debit = debit_record.of_event(tag, event)
    if debit and debit.tenant == tenant_id and debit.charged then
      return debit.id, debit.charged, debit_record.refunded_of(tag, debit.id)
    end
    return nil
  end
  local reservation_id = journal.reservation_of(tag, fields)
  local readable, hold =
    pcall(hold_record.load_hold, keys.reservation(tag, reservation_id or ''), field.charged, field.charge_on_expiry,
    field.refunded)
  if reservation_id and readable and hold and hold.tenant == tenant_id and hold_record.HOLD_STATES[hold.state] then
    return reservation_id, hold.state == 'ACTIVE' and '' or journal.charge_of_end(hold.state, hold) or '0',
      hold[field.refunded] or ''
  end
end

local last, _, more =
  stream_walk.walk_stream('XRANGE', stream, after == '' and '-' or '(' .. after, '+', limit, function(entry)
  if stream_walk.value_of(entry[2], 'mended') then
    return
  end
  local charge_id, expected, total = recorded(entry[2])
  if charge_id then
    reply[#reply + 1] = charge_id
    reply[#reply + 1] = stream_walk.value_of(entry[2], field.charged) or ''
    reply[#reply + 1] = expected
    reply[#reply + 1] = stream_walk.value_of(entry[2], field.refunded) or ''
    reply[#reply + 1] = total
  end
end)
if more and last then
  reply[2] = last
end
return reply
