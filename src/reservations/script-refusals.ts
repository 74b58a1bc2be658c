import { Inject, Injectable } from '@nestjs/common';
import { type ErrorCode, Refusal } from '../ledger/index.js';
import type { Reply } from '../redis/index.js';
import { LOGGER, type Logger } from '../telemetry/index.js';
import { ReservationMetrics } from './reservation.metrics.js';

type Describe = (reply: Reply) => { message: string; details?: Record<string, unknown> };

const AT_SCOPE =
  (words: string): Describe =>
  ([, scope]) => ({
    message: `${words} at scope ${scope}`,
    ...(scope === undefined ? {} : { details: { scope } }),
  });

/** What each refusing status word of the reservation scripts means to a client. */
const REFUSALS: Readonly<Record<string, readonly [ErrorCode, Describe]>> = {
  IDEMPOTENCY_MISMATCH: [
    'IDEMPOTENCY_MISMATCH',
    () => ({ message: 'this idempotency key was used before with a different request' }),
  ],
  NOT_FOUND: ['NOT_FOUND', () => ({ message: 'there is no such reservation' })],
  FORBIDDEN: ['FORBIDDEN', () => ({ message: 'the reservation belongs to another tenant' })],
  TENANT_CLOSED: [
    'TENANT_CLOSED',
    () => ({ message: 'the tenant is closed; its reservations and budgets no longer change' }),
  ],
  TENANT_SUSPENDED: ['UNAUTHORIZED', () => ({ message: 'the API key is not valid' })],
  RESERVATION_FINALIZED: [
    'RESERVATION_FINALIZED',
    ([, state]) => ({ message: `the reservation is ${state} already`, details: { status: state } }),
  ],
  RESERVATION_EXPIRED: [
    'RESERVATION_EXPIRED',
    () => ({ message: 'the reservation has expired, and its hold was given back' }),
  ],
  MAX_EXTENSIONS_EXCEEDED: [
    'MAX_EXTENSIONS_EXCEEDED',
    ([, allowed]) => ({
      message: `the reservation has used all of its ${allowed} extensions`,
      details: { max_extensions: Number(allowed) },
    }),
  ],
  BUDGET_FROZEN: ['BUDGET_FROZEN', AT_SCOPE('the budget is frozen')],
  BUDGET_CLOSED: ['BUDGET_CLOSED', AT_SCOPE('the budget is closed')],
  OVERDRAFT_LIMIT_EXCEEDED: ['OVERDRAFT_LIMIT_EXCEEDED', AT_SCOPE('the overdraft limit is exceeded')],
  DEBT_OUTSTANDING: ['DEBT_OUTSTANDING', AT_SCOPE('debt is outstanding and no overdraft is allowed')],
  BUDGET_EXCEEDED: ['BUDGET_EXCEEDED', AT_SCOPE('the remaining budget does not cover the amount')],
  INT64_OVERFLOW: [
    'INVALID_REQUEST',
    ([, scope]) => ({
      message: `the amount would take the budget at scope ${scope} beyond int64`,
      details: { field: 'amount', scope },
    }),
  ],
  INVALID_POLICY: [
    'INVALID_REQUEST',
    ([, policy]) => ({
      message: `the default overage policy '${policy}' is not one of REJECT, ALLOW_IF_AVAILABLE, ALLOW_WITH_OVERDRAFT`,
      details: { field: 'overage_policy' },
    }),
  ],
};

/** The refusal that a script's reply stands for. A word that nobody declared is a defect, and so is a quarantined record. */
export function refusalOf(reply: Reply): Error {
  const word = reply[0] as string;
  const entry = REFUSALS[word];
  if (entry === undefined) {
    return new Error(`a reservation script answered ${reply.join(' ')}`);
  }
  const [code, describe] = entry;
  const { message, details } = describe(reply);
  return new Refusal(code, message, details);
}

/** Reservations whose damage is in the log already; beyond so many it may be told again. */
const MOST_TOLD = 10_000;

/** Says that a reservation's record is damaged: in a counter each time that it is read, and once in the log. */
@Injectable()
export class DamagedRecords {
  private readonly told = new Set<string>();

  constructor(
    private readonly metrics: ReservationMetrics,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  report(reservationId: string, reason: string): void {
    this.metrics.unreadable(reason);
    const name = `${reservationId} ${reason}`;
    if (this.told.has(name)) {
      return;
    }
    if (this.told.size === MOST_TOLD) {
      this.told.clear();
    }
    this.told.add(name);
    this.logger.warn(
      { reservation_id: reservationId, reason },
      'the record of a reservation is damaged; what can be known of it is shown',
    );
  }
}
