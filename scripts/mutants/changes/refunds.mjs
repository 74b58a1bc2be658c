/** Mistakes in refunds: too much comes back, to the wrong figure, or nobody hears of it. */
export const REFUNDS = {
  'ledger/refund.lua': [
    {
      what: 'each refund may be as much as the charge',
      find: 'int64.less(int64.sub(charge.charged, charge.refunded), amount)',
      put: 'int64.less(charge.charged, amount)',
    },
    {
      what: 'the record does not say what was refunded',
      find: "  redis.call('HSET', charge.key, field.refunded, total)\n",
      put: '',
    },
    {
      what: 'the record goes before what its refund tells',
      find: "  redis.call('PEXPIRE', charge.key, settle.settled_retention(retention_ms, idempotency_ttl_ms), 'GT')\n",
      put: '',
    },
    {
      what: 'the refunds of a debit are not found again',
      find: 'origin.correlation = is_debit and charge_id or nil\n',
      put: '',
    },
    {
      what: 'a debit of another tenant is refunded',
      find: "tenant_id ~= '' and debit.tenant ~= tenant_id",
      put: 'false',
    },
    {
      what: 'a refund is made again',
      find: 'idempotency_record.remember(idempotency, fingerprint, parts, idempotency_ttl_ms)\n',
      put: '',
    },
    {
      what: "an operator's refund of a debit has no audit row",
      find: 'if by_operator and is_debit then',
      put: 'if by_operator and false then',
    },
    {
      what: 'a damaged journal is noticed in the middle of a refund',
      find: 'journal.require_journal(tag)\n',
      put: '',
    },
  ],
  'ledger/lib/refunding.lua': [
    {
      what: 'debt is not repaid',
      find: 'lowered(budget.debt, amount)',
      put: "lowered(budget.debt, '0')",
    },
    {
      what: 'a period that has ended is reopened',
      find: 'if not is_period_over(budget, charged_at) then',
      put: 'if true then',
    },
    {
      what: 'a window that began after the charge counts less',
      find: 'window.starts <= charged_at and lowered',
      put: 'true and lowered',
    },
    {
      what: 'more comes back than still stands',
      find: 'int64.less(figure, amount) and figure or amount',
      put: 'amount',
    },
    {
      what: 'the mark of a capped charge stays',
      find: "  if budget.returned ~= '0' then\n",
      put: '  if false then\n',
    },
  ],
  'ledger/lib/debit_record.lua': [
    {
      what: 'refunds of a debit do not add up',
      find: "return figures_of(entry).refunded_total or '0'",
      put: "return '0'",
    },
    {
      what: 'scopes that were not charged get something back',
      find: "string.sub(mask or '', #scopes, #scopes) == '1' and path or nil",
      put: 'path',
    },
  ],
};
