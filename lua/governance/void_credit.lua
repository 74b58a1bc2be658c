#!lua
-- void_credit: end a credit by decision of an operator. What live holds may need of it stays pinned until they end.
--
-- KEYS[1]   budget           hash
-- KEYS[2]   credit           hash
-- ARGV[1]   tenant_id
-- ARGV[2]   scope            canonical
-- ARGV[3]   unit
-- ARGV[4]   reason           or empty
-- ARGV[5-8] origin           actor is admin or admin_on_behalf_of
-- RETURNS   CHANGED now_ms live? record{} | NOT_FOUND | TENANT_CLOSED | BUDGET_CLOSED
--           | CREDIT_FINALIZED state
-- BOUND     one budget, 64 credits
-- EMITS     custom.credit.voided, budget.exhausted, budget.threshold_crossed; those of a rollover; those of a turn of
--           credits
-- @include  audit_log, budget_figures, credit_record, credit_turn, governed_budget, int64, keys, time
--
-- live is the budget's field `credits`. Voiding a credit again changes nothing.
local budget_record, credit_key = KEYS[1], KEYS[2]
local tenant_id, scope, unit, reason = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local origin = { actor = ARGV[5], key = ARGV[6], request = ARGV[7], trace = ARGV[8] }

local tag = keys.tag_of(budget_record)

local budget, refusal = governed_budget(tag, unit, scope, tenant_id)
if not budget then
  return refusal
end
local id, record = keys.credit_in(credit_key), redis.call('HMGET', credit_key, 'amount', 'status')
if not record[1] then
  return { 'NOT_FOUND' }
end
local credits = credit_record.copy(budget.credits_text and credit_record.parsed(budget.credits_text))
local place = credit_record.place_of(credits, id)
if not place and record[2] ~= 'VOIDED' then
  return { 'CREDIT_FINALIZED', record[2] or 'ENDED' }
end
if place then
  local figures, effects, credit = budget_figures.figures_of(budget), credit_record.new_effects(), credits.list[place]
  local pinned, voided = 0, credit.left
  if credit.is_active then
    -- After the holds of this ms. Later ones of it are made at the end of the pin: see credit_record.made_at.
    credit, pinned, voided = credit_record.end_credit(figures, credits, place, budget.now + 1, effects)
  else
    table.remove(credits.list, place)
    effects.gone[1] = id
  end
  effects.happened[1] = { 'voided', credit, int64.text(pinned), int64.text(voided) }
  credit_turn.require_places(tag)
  audit_log.require_audit_log(tag)

  -- Nothing is refused below this line.
  redis.call('HSET', credit_key, 'voided', int64.text(voided))
  credit_turn.write_turn(tag, tenant_id, unit, budget, figures, credits, effects, origin, budget.now)
  audit_log.append_audit(tag, 'voidCredit', 200, tenant_id, 'credit', id, origin,
    { 'scope', scope, 'unit', unit, 'voided', int64.text(voided), 'pinned', int64.text(pinned), 'reason', reason })
end
return { 'CHANGED', time.ms_text(budget.now), credit_record.text_of(credits),
  unpack(redis.call('HGETALL', credit_key)) }
