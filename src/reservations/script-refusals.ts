import { Inject, Injectable } from '@nestjs/common';
import { type ErrorCode, Refusal, type Refused, tenantClosed, TooBusy } from '../ledger/index.js';
import { LOGGER, type Logger, MetricsRegistry } from '../telemetry/index.js';
import { RESERVATION_METRICS } from './reservations.metrics.js';

/** What refusals say of themselves. */
export interface RefusingReply {
  readonly status: string;
  readonly scope?: string;
  readonly state?: string;
  readonly allowed?: number;
  readonly overagePolicy?: string;
  readonly limit?: string;
  readonly retryMs?: number;
  readonly remaining?: string;
  readonly policyId?: string;
  readonly window?: string;
  readonly stamp?: string;
}

type Describe = (reply: RefusingReply) => Refused;

const AT_SCOPE =
  (code: ErrorCode, words: string): Describe =>
  ({ scope }) => [code, `${words} at scope ${scope}`, scope === undefined ? undefined : { scope }];

/** A field of the request that the tenant's settings or policies do not allow. */
const IN_FIELD =
  (field: string, message: string): Describe =>
  () => ['INVALID_REQUEST', message, { field }];

const OUT_OF_FUNDS = AT_SCOPE('BUDGET_EXCEEDED', 'the remaining budget does not cover the amount');

/** Says that funds are kept for a reserve that began to wait earlier. */
export const EARLIER_WAITER = 'EARLIER_WAITER';

/** The refusal for each status word of the reservation scripts. */
const REFUSALS: Readonly<Record<string, Describe>> = {
  IDEMPOTENCY_MISMATCH: () => [
    'IDEMPOTENCY_MISMATCH',
    'this idempotency key was used before with a different request',
  ],
  NOT_FOUND: () => ['NOT_FOUND', 'there is no such reservation'],
  FORBIDDEN: () => ['FORBIDDEN', 'the reservation belongs to another tenant'],
  TENANT_CLOSED: () => tenantClosed('reservations and budgets'),
  TENANT_SUSPENDED: () => ['UNAUTHORIZED', 'the API key is not valid'],
  RESERVATION_FINALIZED: ({ state }) => [
    'RESERVATION_FINALIZED',
    `the reservation is already ${state}`,
    { status: state },
  ],
  RESERVATION_EXPIRED: () => ['RESERVATION_EXPIRED', 'the reservation has expired'],
  MAX_EXTENSIONS_EXCEEDED: ({ allowed }) => [
    'MAX_EXTENSIONS_EXCEEDED',
    `the reservation has used all of its ${allowed} extensions`,
    { max_extensions: allowed },
  ],
  BUDGET_FROZEN: AT_SCOPE('BUDGET_FROZEN', 'the budget is frozen'),
  BUDGET_CLOSED: AT_SCOPE('BUDGET_CLOSED', 'the budget is closed'),
  OVERDRAFT_LIMIT_EXCEEDED: AT_SCOPE('OVERDRAFT_LIMIT_EXCEEDED', 'the overdraft limit is exceeded'),
  DEBT_OUTSTANDING: AT_SCOPE('DEBT_OUTSTANDING', 'debt is outstanding and no overdraft is allowed'),
  BUDGET_EXCEEDED: (reply) =>
    reply.window === undefined || reply.window === ''
      ? OUT_OF_FUNDS(reply)
      : [
          'BUDGET_EXCEEDED',
          `what remains in window ${reply.window} does not cover the amount at scope ${reply.scope}`,
          { scope: reply.scope, window: reply.window },
        ],
  KEPT_FOR_WAITER: ({ scope }) => [
    'BUDGET_EXCEEDED',
    `what remains at scope ${scope} is kept for a reserve that waited longer`,
    { scope, kept_for: EARLIER_WAITER },
  ],
  ACTION_KIND_DENIED: ({ policyId }) => [
    'ACTION_KIND_DENIED',
    `policy ${policyId} denies this kind of action`,
  ],
  ACTION_KIND_NOT_ALLOWED: ({ policyId }) => [
    'ACTION_KIND_NOT_ALLOWED',
    `policy ${policyId} does not allow this kind of action`,
  ],
  ACTION_QUOTA_EXCEEDED: ({ policyId, window, limit }) => [
    'ACTION_QUOTA_EXCEEDED',
    `the quota of ${limit} ${window} in policy ${policyId} is used up`,
  ],
  OBSERVED_SET: IN_FIELD(
    'observe_mode',
    'reservations of a tenant in observe mode cannot be granted together; send each by itself, or with observe_mode ENFORCE',
  ),
  UNDECLARED_KIND: IN_FIELD(
    'action.kind',
    'action.kind is not registered: kinds that begin with custom. must be declared by the deployment',
  ),
  MISSING_RUN_ID: IN_FIELD(
    'subject.dimensions.run_id',
    'a quota counts by run, so subject.dimensions.run_id is required',
  ),
  INT64_OVERFLOW: ({ scope }) => [
    'INVALID_REQUEST',
    `the amount would overflow int64 in the budget at scope ${scope}`,
    { field: 'amount', scope },
  ],
  INVALID_POLICY: ({ overagePolicy }) => [
    'INVALID_REQUEST',
    `the default overage policy '${overagePolicy}' is not one of REJECT, ALLOW_IF_AVAILABLE, ALLOW_WITH_OVERDRAFT`,
    { field: 'overage_policy' },
  ],
};

/** Maps a script's refusing reply to a refusal. An unknown word is a defect, and so is a quarantined record that reaches this. */
export function refusalOf(reply: RefusingReply): Error {
  if (reply.status === 'RATE_LIMITED') {
    const { limit, allowed, retryMs = 0 } = reply;
    const retryAfterS = Math.ceil(retryMs / 1000);
    return new TooBusy(`the governing policy's ${limit} of ${allowed} is reached`, retryAfterS, {
      limit,
      allowed,
    });
  }
  const describe = REFUSALS[reply.status];
  return describe === undefined
    ? new Error(`a reservation script answered ${reply.status}`)
    : stamped(new Refusal(...describe(reply)), reply);
}

/** Notes on a refusal when the script decided it, so that it can be attested. */
export function stamped(refusal: Refusal, { stamp }: Pick<RefusingReply, 'stamp'>): Refusal {
  if (stamp !== undefined) {
    refusal.stamp = stamp;
  }
  return refusal;
}

/** Damaged records already logged. The set is cleared beyond this many, so a record may then be logged again. */
const MAX_LOGGED = 10_000;

/** Reports damaged records: counts one each time it is read, and logs it once. */
@Injectable()
export class DamagedRecords {
  private readonly logged = new Set<string>();

  constructor(
    private readonly metrics: MetricsRegistry,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  report(reservationId: string, reason: string): void {
    this.metrics.of(RESERVATION_METRICS).unreadable.inc({ reason });
    const name = `${reservationId} ${reason}`;
    if (this.logged.has(name)) {
      return;
    }
    if (this.logged.size === MAX_LOGGED) {
      this.logged.clear();
    }
    this.logged.add(name);
    this.logger.warn(
      { reservation_id: reservationId, reason },
      'the record of a reservation is damaged; the readable part of it is served',
    );
  }
}
