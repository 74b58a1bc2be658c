-- journal: the partition's stream of what was charged and given back: one entry for each end of a reservation, each
-- direct debit and each refund.
-- @include entry_order, field, keys, stream_walk, time
--
-- The script of a change appends the entry in the same run, so an entry exists if and only if its change does. What an
-- entry lacks is in what it names, which is kept for at least as long: the record of a reservation, or the event of a
-- debit. A field that is also one of a record has its name there (lua/lib/field.lua):
-- - `id`, of a reservation: what follows its prefix and partition; `event`, of a debit: the id of its event in the
-- event log.
-- - charged: the charge of each scope that the record's mask names. '0' if nothing was.
-- - `actual`: what the client reported, if less of it was charged. `debt`: what the budgets could not pay, added up
-- over the scopes.
-- - commit_metrics: as in the record.
-- - idempotency_key: of a debit, because its event lacks it. Older debits have their scope_mask here, too.
-- - refunded: of a refund, what of the charge is refunded now. Its `charged` is negative, `id` or `event` names what
-- was charged, and ended_at, ended_by, release_reason and commit_metrics are what the archive has in its row.
-- - rq, tr: of a commit or release, the id and trace id of its request, as in an event.
-- - `mended`: nothing has ended or was charged now. An operator repaired the record of a reservation that had ended
-- before.
-- Entries with the same fields share one list of them in Redis: 26 to 34 bytes each, and 75 more with a request.
-- Packing and the archiver follow the journal, each to a place of its own in the hash `journal-places`:
-- - packed: the last entry that packing has passed. `kept`: how many entries up to there the stream still has.
-- - cursor: the last entry that is archived; `through`: the instant up to which everything is. Without them, nothing is
-- archived.
-- - first: the entry after which the archive began; `began`: the instant at which it did, in ms. `seen`: that of the
-- last renewal of the archiver's lease, by Redis' own clock.
-- - lost: the last entry that was removed before it was archived.

-- The prefix of the ids of a partition's reservations. An id of another form, as damaged data may have, is kept whole.
local function prefix_of(tag)
  return 'rsv_' .. string.sub(tag, 3, 4)
end

local function short_id(tag, reservation_id)
  return string.sub(reservation_id, 1, 6) == prefix_of(tag) and string.sub(reservation_id, 7) or reservation_id
end

-- Ends the script if the journal is not a stream. Scripts that append entries call this before their first write: a
-- later error would leave a change without its entry. Calls that share a run pass their `group`, and it is checked
-- once.
local function require_journal(tag, group)
  if not group or not group.has_journal then
    redis.call('XLEN', keys.journal(tag))
  end
  if group then
    group.has_journal = true
  end
end

-- What the end of a reservation has cost, from the fields of its record, or nil if that is damaged.
local function charge_of_end(state, record)
  if state == 'COMMITTED' then
    return record[field.charged]
  end
  return state == 'EXPIRED' and record[field.charge_on_expiry] or '0'
end

local TRACE_ID_LENGTH = 32

-- `origin` is that of the request that ended the reservation, as append_event takes it; nil if none did.
local function append_end(tag, reservation_id, charged, origin)
  local journal = keys.journal(tag)
  if not origin then
    redis.call('XADD', journal, time.entry_id(journal), 'id', short_id(tag, reservation_id), field.charged, charged)
    return
  end
  redis.call('XADD', journal, time.entry_id(journal), 'id', short_id(tag, reservation_id), field.charged, charged,
    'rq', origin.request, 'tr', string.sub(origin.trace, 1, TRACE_ID_LENGTH))
end

-- `charge` is what lua/ledger/lib/charging.lua returns. `metrics` may be empty.
local function append_commit(tag, reservation_id, charge, actual, metrics, origin)
  if charge.debt == '0' and metrics == '' and (charge.charged == actual) then
    return append_end(tag, reservation_id, charge.charged, origin)
  end
  local journal = keys.journal(tag)
  local entry = { 'XADD', journal, time.entry_id(journal), 'id', short_id(tag, reservation_id), field.charged,
    charge.charged, 'rq', origin.request, 'tr', string.sub(origin.trace, 1, TRACE_ID_LENGTH) }
  if charge.charged ~= actual then
    entry[#entry + 1], entry[#entry + 2] = 'actual', actual
  end
  if charge.debt ~= '0' then
    entry[#entry + 1], entry[#entry + 2] = 'debt', charge.debt
  end
  if metrics ~= '' then
    entry[#entry + 1], entry[#entry + 2] = field.commit_metrics, metrics
  end
  redis.call(unpack(entry))
end

local function append_mended(tag, reservation_id, charged)
  local journal = keys.journal(tag)
  redis.call('XADD', journal, time.entry_id(journal), 'id', short_id(tag, reservation_id), field.charged, charged,
    'mended', '1')
end

-- `fields` are further fields and values, of which empty ones are left out.
local function append_refund(tag, charge, is_debit, amount, total, fields, origin)
  local journal = keys.journal(tag)
  local entry = { 'XADD', journal, time.entry_id(journal), is_debit and 'event' or 'id',
    is_debit and charge or short_id(tag, charge), field.charged, '-' .. amount, field.refunded, total, 'rq',
    origin.request, 'tr', string.sub(origin.trace, 1, TRACE_ID_LENGTH) }
  for i = 2, #fields, 2 do
    if fields[i] ~= '' then
      entry[#entry + 1], entry[#entry + 2] = fields[i - 1], fields[i]
    end
  end
  redis.call(unpack(entry))
end

local function append_debit(tag, event, charge, actual, idempotency_key)
  local journal = keys.journal(tag)
  local entry = { 'XADD', journal, time.entry_id(journal), 'event', event, field.charged, charge.charged,
    field.idempotency_key, idempotency_key }
  if charge.charged ~= actual then
    entry[#entry + 1], entry[#entry + 2] = 'actual', actual
  end
  if charge.debt ~= '0' then
    entry[#entry + 1], entry[#entry + 2] = 'debt', charge.debt
  end
  redis.call(unpack(entry))
end

-- The reservation that an entry with these fields names, or nil if it is about a debit.
local function reservation_of(tag, fields)
  for i = 1, #fields, 2 do
    if fields[i] == 'id' then
      return #fields[i + 1] == 16 and prefix_of(tag) .. fields[i + 1] or fields[i + 1]
    end
  end
  return nil
end

-- Entries of a partition that wait to be archived: about 20 MB of them. Further ones push out the oldest.
local LONGEST_BACKLOG = 200000
-- An archiver that has been away for longer counts as switched off. In the time of Redis itself: an advance of a test
-- clock is no absence.
local AWAY_MS = 7 * 86400000

-- Removes what packing and the archiver have passed, and what exceeds the bounds of waiting for the archiver. Returns
-- how many entries were removed before they were archived.
local function trim(tag)
  local stream, places = keys.journal(tag), keys.journal_places(tag)
  local at = redis.call('HMGET', places, 'packed', 'cursor', 'seen', 'kept')
  local packed, cursor, seen, kept = at[1], at[2], tonumber(at[3]), tonumber(at[4]) or 0
  if not packed then
    return 0
  end
  if cursor and not seen then
    redis.call('HSET', places, 'seen', time.ms_text(time.redis_ms()))
  elseif cursor and time.redis_ms() - seen > AWAY_MS then
    redis.call('HDEL', places, 'cursor', 'through')
    cursor = nil
  end
  local lower = cursor and entry_order.is_before(cursor, packed) and cursor or packed
  kept = kept - redis.call('XTRIM', stream, 'MINID', stream_walk.id_after(lower))
  local lost = 0
  if kept > LONGEST_BACKLOG then
    lost = redis.call('XTRIM', stream, 'MAXLEN', redis.call('XLEN', stream) - (kept - LONGEST_BACKLOG))
    local first = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
    redis.call('HSET', places, 'lost', first and entry_order.id_before(first[1]) or packed)
  end
  redis.call('HSET', places, 'kept', string.format('%d', math.max(0, kept - lost)))
  return lost
end

return {
  append_commit = append_commit, append_debit = append_debit, append_end = append_end, append_mended = append_mended,
  append_refund = append_refund,
  charge_of_end = charge_of_end, require_journal = require_journal, reservation_of = reservation_of, trim = trim,
}
