import type { Rules } from './rule.js';

/** Every MUST and MUST NOT for servers in `cycles-protocol-v0`, in our words, with its place. */
export const RUNTIME_RULES = {
  'no proof of payment': {
    rule: 'A ledger entry is never presented as proof of payment',
    place: 'PAYMENT-RAIL TERMINOLOGY BOUNDARY',
    note: 'Holdfast moves no money, and no answer says so.',
  },
  'key required': {
    rule: 'Every operation except the evidence endpoints requires a valid key',
    place: 'AUTH & TENANCY',
  },
  'subject of another tenant': {
    rule: 'A subject of another tenant is 403',
    place: 'AUTH & TENANCY; decide, createReservation, createEvent',
  },
  'reservation of another tenant': {
    rule: "Reading or settling another tenant's reservation is 403",
    place: 'AUTH & TENANCY; get, commit, release, extend',
  },
  'balances of another tenant': {
    rule: "Balances are the key's tenant's; another tenant is 403",
    place: 'AUTH & TENANCY; getBalances',
  },
  'additive fields': {
    rule: 'New fields are additive, and no field changes its meaning',
    place: 'EVOLUTION CONTRACT',
  },
  'insufficient budget': {
    rule: 'Insufficient budget is 409 `BUDGET_EXCEEDED`; a live reserve never answers 200 `DENY`',
    place: 'ERROR SEMANTICS; ReservationCreateResponse',
  },
  'overdraft limit at commit': {
    rule: 'A commit beyond the overdraft limit is 409 `OVERDRAFT_LIMIT_EXCEEDED`',
    place: 'ERROR SEMANTICS; Balance',
  },
  'over limit before debt': {
    rule: 'A reserve in a scope over its limit is 409 `OVERDRAFT_LIMIT_EXCEEDED`, whatever remains; this precedes `DEBT_OUTSTANDING`',
    place: 'ERROR SEMANTICS; createReservation',
  },
  'outstanding debt': {
    rule: 'Outstanding debt makes a reserve 409 `DEBT_OUTSTANDING`, unless a policy allows it',
    place: 'ERROR SEMANTICS; Balance',
    note: 'An overdraft limit is what allows it, see [compatibility](../compatibility.md#deliberate-differences-and-choices).',
  },
  'closed tenant refuses': {
    rule: 'Once a tenant is closed, its reserve, commit, release, extend and direct debit are 409 `TENANT_CLOSED`',
    place: 'ERROR SEMANTICS',
  },
  'closed tenant denies': {
    rule: "A closed tenant's dry run and decision are 200 `DENY` with `TENANT_CLOSED`, never 409",
    place: 'ERROR SEMANTICS; decide, createReservation',
  },
  'unreadable tenant status': {
    rule: 'An unreadable tenant status is 500, on evaluations too',
    place: 'ERROR SEMANTICS',
  },
  'tenant without record': { rule: 'A tenant without a record is not blocked', place: 'ERROR SEMANTICS' },
  'closed before reservation': {
    rule: '`TENANT_CLOSED` precedes the state of the reservation',
    place: 'ERROR SEMANTICS; extendReservation',
  },
  'replay after close': {
    rule: 'Replays of requests that succeeded before the close return the original response',
    place: 'ERROR SEMANTICS',
  },
  'reads of closed tenant': {
    rule: "Reading a closed tenant's reservations is never `TENANT_CLOSED`",
    place: 'ERROR SEMANTICS',
  },
  finalized: {
    rule: 'A committed or released reservation is 409 `RESERVATION_FINALIZED`',
    place: 'ERROR SEMANTICS; extendReservation',
  },
  expired: {
    rule: 'An expired reservation is 410: for commit and release after the grace, extend after the lease, and a read once it is EXPIRED',
    place: 'ERROR SEMANTICS; getReservation, extendReservation',
  },
  'unknown reservation': {
    rule: 'An unknown reservation is 404 `NOT_FOUND`; an id that violates its schema is 400',
    place: 'ERROR SEMANTICS; getReservation, extendReservation; parameter ReservationIdPath',
  },
  throttling: {
    rule: '429 is for throttling only, with `LIMIT_EXCEEDED`, `Retry-After` and `X-RateLimit-Reset`',
    place: 'ERROR SEMANTICS',
  },
  'wrong unit': {
    rule: 'A wrong unit is 400 `UNIT_MISMATCH` for reserve, commit, direct debit and decide; 404 means that there is no budget at all',
    place: 'ERROR SEMANTICS',
  },
  'server clock': { rule: "Expiry uses the server's clock", place: 'ERROR SEMANTICS' },
  'over limit until repaid': {
    rule: 'A scope whose debt exceeds its limit is marked and refuses all reserves until the debt is repaid',
    place: 'OVERDRAFT RECONCILIATION; Balance',
  },
  'mark ends with debt': {
    rule: 'The mark disappears when the debt is repaid',
    place: 'OVERDRAFT RECONCILIATION',
  },
  'header equals body key': {
    rule: 'The idempotency keys in header and body must be equal',
    place: 'IDEMPOTENCY',
  },
  'idempotency scope': {
    rule: 'An idempotency key is scoped to the effective tenant and the endpoint',
    place: 'IDEMPOTENCY',
  },
  replay: {
    rule: 'A replay of a successful request returns the original response with the original ids',
    place: 'IDEMPOTENCY; all six operations',
  },
  'replay remaining ttl': {
    rule: 'A replay computes `remaining_ttl_ms` anew; it is 0 once the reservation has ended',
    place: 'IDEMPOTENCY; ReservationCreateResponse, ReservationExtendResponse',
  },
  'idempotency mismatch': {
    rule: 'The same key with a different payload is 409 `IDEMPOTENCY_MISMATCH`',
    place: 'IDEMPOTENCY',
  },
  'scope derivation': {
    rule: 'Scopes are derived in canonical order, gaps are skipped, at least one scope needs a budget, and `affected_scopes` keeps the order',
    place: 'SCOPE DERIVATION',
  },
  'trace id source': {
    rule: 'The trace id comes from `traceparent`, else `X-Cycles-Trace-Id`, else it is random, and never all zeros',
    place: 'CORRELATION AND TRACING',
  },
  'malformed correlation': {
    rule: 'A malformed correlation header is treated as absent',
    place: 'CORRELATION AND TRACING',
  },
  'trace id header': { rule: 'Every response has `X-Cycles-Trace-Id`', place: 'CORRELATION AND TRACING' },
  'trace id in errors': {
    rule: 'Every error has `trace_id`',
    place: 'CORRELATION AND TRACING; ErrorResponse',
  },
  'trace of later events': {
    rule: 'Events and audit rows carry the trace, even if they are written later or by another instance',
    place: 'CORRELATION AND TRACING',
  },
  'audit row per request': {
    rule: 'Each authenticated request on the governance plane has one audit row',
    place: 'CORRELATION AND TRACING',
    note: 'Beyond a rate, see [compatibility](../compatibility.md#deliberate-differences-and-choices).',
  },
  'request id of events': {
    rule: 'An event caused by a request has its `request_id`',
    place: 'WEBHOOK EVENT GUIDANCE',
  },
  'custom event types': {
    rule: 'Server-specific event types begin with `custom.`',
    place: 'WEBHOOK EVENT GUIDANCE',
  },
  'signed delivery': {
    rule: "A delivery is signed with HMAC-SHA256 over the exact bytes of its body, keyed with the secret's UTF-8 bytes, and names event, type, trace and request",
    place: 'WEBHOOK EVENT GUIDANCE',
  },
  'traceparent of delivery': {
    rule: "A delivery's `traceparent` has the event's trace, a new span, and the inbound flags, or 01 if there were none",
    place: 'WEBHOOK EVENT GUIDANCE',
  },
  'custom headers': {
    rule: "Custom headers are sent in addition to the protocol's, never instead of them",
    place: 'WEBHOOK EVENT GUIDANCE',
  },
  'at least once': {
    rule: 'Deliveries never block the operation that caused them, and are at least once with the same id in every attempt',
    place: 'WEBHOOK EVENT GUIDANCE; WebhookSubscription',
  },
  'sort defaults': {
    rule: 'A sort key without a direction is descending, and an unknown parameter is ignored',
    place: 'SortDirection; listReservations',
  },
  'subject levels': {
    rule: 'A subject names at least one level; dimensions alone are 400, and dimensions are returned unchanged',
    place: 'Subject',
  },
  caps: {
    rule: '`caps` is present if and only if the decision is `ALLOW_WITH_CAPS`',
    place: 'DecisionResponse, ReservationCreateResponse',
  },
  'dry run': {
    rule: 'A dry run evaluates everything and changes nothing',
    place: 'ReservationCreateRequest, createReservation',
  },
  'shape of dry run': {
    rule: 'Dry runs and denials have no `reservation_id`, `expires_at_ms` or `remaining_ttl_ms`, but have `affected_scopes`',
    place: 'createReservation, ReservationCreateResponse',
  },
  'balance adds up': { rule: 'All amounts of a balance have the same unit and add up', place: 'Balance' },
  'debt only with overdraft': {
    rule: 'Debt arises only under `ALLOW_WITH_OVERDRAFT`, and never in a scope without an overdraft limit',
    place: 'Balance, CommitOveragePolicy',
  },
  'funding repays debt': { rule: 'Funding repays debt before anything else', place: 'Balance' },
  'settles over limit': {
    rule: 'Earlier reservations can still be settled in a scope that is over its limit',
    place: 'Balance',
  },
  'direct debit refusals': {
    rule: 'A direct debit is refused under `REJECT` if any scope has too little, and under `ALLOW_WITH_OVERDRAFT` beyond the limit',
    place: 'EventCreateRequest',
  },
  'direct debit atomic': {
    rule: 'A direct debit is applied to every scope or to none',
    place: 'EventCreateRequest, createEvent',
  },
  'client time': { rule: '`client_time_ms` has no effect', place: 'EventCreateRequest' },
  'decision on debt': {
    rule: 'For a decision, debt or an over-limit mark is `DENY`, never 409',
    place: 'decide',
  },
  'reserve atomic': { rule: 'A reserve is atomic over all its scopes', place: 'createReservation' },
  'time windows': {
    rule: 'Time windows include both bounds, apply to their own timestamp whatever the sort order, and combine with AND',
    place: 'listReservations',
  },
  'window order': { rule: 'A window that ends before it starts is 400', place: 'listReservations' },
  'blank bound': { rule: 'A blank bound is no bound', place: 'listReservations' },
  'no finalized time': {
    rule: 'A row without `finalized_at_ms` matches no window on it',
    place: 'listReservations',
  },
  'cursor questions': {
    rule: 'A cursor is refused with different windows or another order',
    place: 'listReservations',
  },
  'cursor order': {
    rule: 'A cursor of a sorted list includes its order',
    place: 'listReservations; every list with `sort_by`',
  },
  'include tokens': {
    rule: 'Unknown and blank tokens of `include` are ignored, and changing it does not invalidate a cursor',
    place: 'listReservations',
  },
  'summary members': {
    rule: 'Every COMMITTED row has `committed`; only COMMITTED and RELEASED rows have `finalized_at_ms`',
    place: 'ReservationSummary, ReservationDetail',
  },
  'own reservations': {
    rule: "A list covers the key's tenant; another tenant is 403",
    place: 'listReservations',
  },
  'operator names tenant': {
    rule: "With the admin key, `tenant` is required; without it the list is 400 with the document's message",
    place: 'listReservations',
  },
  'operator any reservation': {
    rule: 'An operator can read and release any reservation',
    place: 'getReservation, releaseReservation',
  },
  'operator release audited': {
    rule: "An operator's release has an audit row with `actor_type` `admin_on_behalf_of` that the audit query finds",
    place: 'releaseReservation',
  },
  'extension scope': { rule: 'An extension changes only the expiry', place: 'extendReservation' },
  'concurrent extensions': { rule: 'Concurrent extensions are safe', place: 'extendReservation' },
  'extension needs lease': {
    rule: 'Only an ACTIVE reservation within its lease can be extended',
    place: 'extendReservation',
  },
  'balance query': { rule: 'A balance query names at least one level of a subject', place: 'getBalances' },
  evidence: {
    rule: 'Evidence: `evidence_id` is computed before transport fields are added, its URL adds `/evidence/` without a second `/v1`, and `getEvidence` is public',
    place: 'CyclesEvidenceRef, getEvidence',
  },
  'evidence of denials': {
    rule: 'A live denial is an `error` envelope; a denied decision or dry run is one of `decide` or `reserve`. No envelope has a code or a member that its schema lacks',
    place: 'ErrorPayload, ReservePayload, ErrorResponseMirror, MIRROR CONTRACT',
  },
  'key set': {
    rule: 'JWK Set: `alg` is `EdDSA`, retired keys stay, and a server that publishes keys uses this path',
    place: 'CyclesEvidenceJwk, getEvidenceJwks',
  },
} as const satisfies Rules;
