#!lua
-- update_credit: move the end of a credit that has not ended, or name it anew.
--
-- KEYS[1]   budget           hash
-- KEYS[2]   credit           hash
-- ARGV[1]   tenant_id
-- ARGV[2]   scope            canonical
-- ARGV[3]   unit
-- ARGV[4]   name             or empty for no change
-- ARGV[5]   expires_at       ms, `none` for no end, or empty for no change
-- ARGV[6-9] origin           actor is admin or admin_on_behalf_of
-- RETURNS   CHANGED now_ms live? record{} | NOT_FOUND | TENANT_CLOSED | BUDGET_CLOSED
--           | CREDIT_FINALIZED state | CREDIT_ENDED
-- BOUND     one budget, 64 credits
-- EMITS     those of a rollover; those of a turn of credits
-- @include  audit_log, credit_record, credit_turn, governed_budget, keys, time
--
-- live is the budget's field `credits`. CREDIT_ENDED is about an end that is not after its start and now.
local budget_record, credit_key = KEYS[1], KEYS[2]
local tenant_id, scope, unit, name, expires_at = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local origin = { actor = ARGV[6], key = ARGV[7], request = ARGV[8], trace = ARGV[9] }

local tag = keys.tag_of(budget_record)

local budget, refusal = governed_budget(tag, unit, scope, tenant_id)
if not budget then
  return refusal
end
local id, record = keys.credit_in(credit_key), redis.call('HMGET', credit_key, 'amount', 'status', 'notify_before_ms')
if not record[1] then
  return { 'NOT_FOUND' }
end
local credits = credit_record.copy(budget.credits_text and credit_record.parsed(budget.credits_text))
local place, ends = credit_record.place_of(credits, id), tonumber(expires_at)
if not place then
  return { 'CREDIT_FINALIZED', record[2] or 'ENDED' }
end
local credit = table.remove(credits.list, place)
if ends and (ends <= budget.now or ends <= credit.starts) then
  return { 'CREDIT_ENDED' }
elseif expires_at ~= '' then
  credit.terms = nil
  credit.ends, credit.notice = ends, ends and tonumber(record[3]) and math.max(0, ends - tonumber(record[3])) or nil
end
credits = credit_record.with(credits, credit)
credit_turn.require_places(tag)
audit_log.require_audit_log(tag)

-- Nothing is refused below this line.
if name ~= '' then
  redis.call('HSET', credit_key, 'name', name)
end
if expires_at ~= '' then
  redis.call('HSET', credit_key, 'expires_at', ends and expires_at or '')
end
credit_turn.write_credits(budget_record, credit_record.text_of(credits))
audit_log.append_audit(tag, 'updateCredit', 200, tenant_id, 'credit', id, origin,
  { 'scope', scope, 'unit', unit, 'name', name, 'expires_at', expires_at })
return { 'CHANGED', time.ms_text(budget.now), credit_record.text_of(credits),
  unpack(redis.call('HGETALL', credit_key)) }
