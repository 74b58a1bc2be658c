import { Inject, Injectable } from '@nestjs/common';
import { type ErrorCode, Refusal, tenantClosed, TooBusy } from '../ledger/index.js';
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

type Describe = (reply: RefusingReply) => { message: string; details?: Record<string, unknown> };

const AT_SCOPE =
  (words: string): Describe =>
  ({ scope }) => ({
    message: `${words} at scope ${scope}`,
    ...(scope === undefined ? {} : { details: { scope } }),
  });

/** Says that funds are kept for a reserve that began to wait earlier. */
export const EARLIER_WAITER = 'EARLIER_WAITER';

/** The refusal for each status word of the reservation scripts. */
const REFUSALS: Readonly<Record<string, readonly [ErrorCode, Describe]>> = {
  IDEMPOTENCY_MISMATCH: [
    'IDEMPOTENCY_MISMATCH',
    () => ({ message: 'this idempotency key was used before with a different request' }),
  ],
  NOT_FOUND: ['NOT_FOUND', () => ({ message: 'there is no such reservation' })],
  FORBIDDEN: ['FORBIDDEN', () => ({ message: 'the reservation belongs to another tenant' })],
  TENANT_CLOSED: ['TENANT_CLOSED', () => ({ message: tenantClosed('reservations and budgets').message })],
  TENANT_SUSPENDED: ['UNAUTHORIZED', () => ({ message: 'the API key is not valid' })],
  RESERVATION_FINALIZED: [
    'RESERVATION_FINALIZED',
    ({ state }) => ({ message: `the reservation is already ${state}`, details: { status: state } }),
  ],
  RESERVATION_EXPIRED: ['RESERVATION_EXPIRED', () => ({ message: 'the reservation has expired' })],
  MAX_EXTENSIONS_EXCEEDED: [
    'MAX_EXTENSIONS_EXCEEDED',
    ({ allowed }) => ({
      message: `the reservation has used all of its ${allowed} extensions`,
      details: { max_extensions: allowed },
    }),
  ],
  BUDGET_FROZEN: ['BUDGET_FROZEN', AT_SCOPE('the budget is frozen')],
  BUDGET_CLOSED: ['BUDGET_CLOSED', AT_SCOPE('the budget is closed')],
  OVERDRAFT_LIMIT_EXCEEDED: ['OVERDRAFT_LIMIT_EXCEEDED', AT_SCOPE('the overdraft limit is exceeded')],
  DEBT_OUTSTANDING: ['DEBT_OUTSTANDING', AT_SCOPE('debt is outstanding and no overdraft is allowed')],
  BUDGET_EXCEEDED: [
    'BUDGET_EXCEEDED',
    (reply) =>
      reply.window === undefined || reply.window === ''
        ? AT_SCOPE('the remaining budget does not cover the amount')(reply)
        : {
            message: `what remains in window ${reply.window} does not cover the amount at scope ${reply.scope}`,
            details: { scope: reply.scope, window: reply.window },
          },
  ],
  KEPT_FOR_WAITER: [
    'BUDGET_EXCEEDED',
    ({ scope }) => ({
      message: `what remains at scope ${scope} is kept for a reserve that waited longer`,
      details: { scope, kept_for: EARLIER_WAITER },
    }),
  ],
  ACTION_KIND_DENIED: [
    'ACTION_KIND_DENIED',
    ({ policyId }) => ({ message: `policy ${policyId} denies this kind of action` }),
  ],
  ACTION_KIND_NOT_ALLOWED: [
    'ACTION_KIND_NOT_ALLOWED',
    ({ policyId }) => ({ message: `policy ${policyId} does not allow this kind of action` }),
  ],
  ACTION_QUOTA_EXCEEDED: [
    'ACTION_QUOTA_EXCEEDED',
    ({ policyId, window, limit }) => ({
      message: `the quota of ${limit} ${window} in policy ${policyId} is used up`,
    }),
  ],
  OBSERVED_SET: [
    'INVALID_REQUEST',
    () => ({
      message:
        'reservations of a tenant in observe mode cannot be granted together; send each by itself, or with observe_mode ENFORCE',
      details: { field: 'observe_mode' },
    }),
  ],
  UNDECLARED_KIND: [
    'INVALID_REQUEST',
    () => ({
      message:
        'action.kind is not registered: kinds that begin with custom. must be declared by the deployment',
      details: { field: 'action.kind' },
    }),
  ],
  MISSING_RUN_ID: [
    'INVALID_REQUEST',
    () => ({
      message: 'a quota counts by run, so subject.dimensions.run_id is required',
      details: { field: 'subject.dimensions.run_id' },
    }),
  ],
  INT64_OVERFLOW: [
    'INVALID_REQUEST',
    ({ scope }) => ({
      message: `the amount would overflow int64 in the budget at scope ${scope}`,
      details: { field: 'amount', scope },
    }),
  ],
  INVALID_POLICY: [
    'INVALID_REQUEST',
    ({ overagePolicy }) => ({
      message: `the default overage policy '${overagePolicy}' is not one of REJECT, ALLOW_IF_AVAILABLE, ALLOW_WITH_OVERDRAFT`,
      details: { field: 'overage_policy' },
    }),
  ],
};

/** Maps a script's refusing reply to a refusal. An unknown word is a defect, and so is a quarantined record that reaches this. */
export function refusalOf(reply: RefusingReply): Error {
  if (reply.status === 'RATE_LIMITED') {
    const { limit, allowed, retryMs = 0 } = reply;
    return new TooBusy(
      `the governing policy's ${limit} of ${allowed} is reached`,
      Math.ceil(retryMs / 1000),
      {
        limit,
        allowed,
      },
    );
  }
  const entry = REFUSALS[reply.status];
  if (entry === undefined) {
    return new Error(`a reservation script answered ${reply.status}`);
  }
  const [code, describe] = entry;
  const { message, details } = describe(reply);
  return stamped(new Refusal(code, message, details), reply);
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
