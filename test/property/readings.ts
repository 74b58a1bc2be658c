import type { LedgerEvent } from '../support/ledger-state.js';

/** The instant at which a reply was decided, if the reply contains it. */
export function instantOf(reply: readonly string[]): number | undefined {
  const [word, second] = reply;
  const difference = (expiresAt: number): number | undefined =>
    reply[expiresAt + 1] === '0' || reply[expiresAt + 1] === undefined
      ? undefined
      : Number(reply[expiresAt]) - Number(reply[expiresAt + 1]);
  const told = (index: number): number => Number(reply[index]);
  switch (word) {
    case 'ALLOW':
      // A set's reply has one after the other. A hold whose lease has ended does not tell.
      return reply
        .map((text, place) => (text === 'ALLOW' ? difference(place + 3) : undefined))
        .find((instant) => instant !== undefined);
    case 'ACTIVE':
      return difference(2);
    case 'EXPIRED':
    case 'CHARGED':
      return told(3);
    case 'CHANGED':
    case 'CLEANED':
    case 'JUDGED':
    case 'RECLAIMED':
    case 'ROLLED':
      return told(1);
    case 'RESERVATION_EXPIRED':
      return second === 'now' || second === 'charged' ? told(4) : undefined;
    default:
      return undefined;
  }
}

/** The reply of fund_budget without the time, which is the last part of FUNDED. */
export const undatedFunding = (reply: readonly string[]): string[] =>
  reply[0] === 'FUNDED' ? reply.slice(0, 10) : [...reply];

const BUDGET_FIGURES = ['allocated', 'remaining', 'spent', 'debt', 'reserved'];

/** A rollover with all its figures: before, after, and both periods. */
function rolloverTold(fields: LedgerEvent['fields']): string {
  const figures = (when: string): string => BUDGET_FIGURES.map((name) => fields[`${when}_${name}`]).join();
  const instants = ['previous_period_start', 'previous_period_end', 'new_period_start', 'new_period_end'];
  return [
    ...['ty', 'tn', 'sc', 'unit'].map((name) => fields[name]),
    ...['previous', 'new'].map(figures),
    ...[...instants, 'rollover_policy', 'periods'].map((name) => fields[name]),
  ].join(' ');
}

/** An event in one line: its type, tenant, scope, and details. */
export function told({ fields }: LedgerEvent): string {
  if (fields['ty'] === 'budget.threshold_crossed') {
    return `${fields['ty']} ${fields['sc']} ${fields['unit']} ${fields['threshold']} ${fields['direction']}`;
  }
  if (fields['rollover_policy'] !== undefined) {
    return rolloverTold(fields);
  }
  const subject =
    fields['ty']?.endsWith('.denied') === true ? fields['reason_code'] : (fields['reservation_id'] ?? '-');
  const charged = fields['ty'] === 'reservation.expired' && fields['charged'] !== undefined;
  return `${fields['ty']} ${fields['tn']} ${fields['sc']} ${subject}${charged ? ` ${fields['charged']}` : ''}`;
}

export function changedKeys(
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): string[] {
  return [...new Set([...before.keys(), ...after.keys()])].filter(
    (key) => before.get(key) !== after.get(key),
  );
}

/** The threshold crossings that must be reported between two utilizations, at the default thresholds. */
export function crossingsBetween(budget: string, before: number, used: number): string[] {
  return [0.8, 0.95, 1]
    .filter((mark) => before < mark !== used < mark)
    .map((mark) => `budget.threshold_crossed ${budget} ${mark} ${used < mark ? 'falling' : 'rising'}`);
}

/**
 * A refusal without the limit that waiting would bring, which the model does not compute. `test/lua/windows` shows it, and
 * `groups.test.ts` that it is the same in a run and alone.
 */
export function withoutAdvice(reply: string[]): string[] {
  if (reply[0] !== 'BUDGET_EXCEEDED' || reply.length < 5) {
    return reply;
  }
  const [word, scope, remaining, window, , ...more] = reply as [string, string, string, string, string];
  return [word, scope, remaining, ...(window === '' ? [] : [window]), ...more];
}
