import type { Crash } from '../cluster-site.js';
import { outcomeOf, type Entry } from '../journaled-load.js';

/** What a client had been told before all requests were repeated. */
export interface Acknowledged {
  readonly entry: Entry;
  readonly outcome: string;
  readonly answeredAt: number;
}

export interface Losses {
  /**
   * Responses that a failover may lose according to the durability table: those after the last moment at
   * which the replica had everything.
   */
  readonly atRisk: number;
  /** Responses that differed when the request was repeated. */
  readonly lost: number;
  /** The lost responses that were not at risk. */
  readonly forbidden: readonly string[];
}

export function acknowledgedBy(entries: readonly Entry[]): Acknowledged[] {
  return entries.flatMap((entry) =>
    entry.answer === undefined || entry.answeredAt === undefined
      ? []
      : [{ entry, outcome: outcomeOf(entry.answer), answeredAt: entry.answeredAt }],
  );
}

/**
 * Compares the acknowledged responses with those to the repeated requests.
 * @param crash the crash of the master that owns the tenant, if there was one
 */
export function lossesOf(acknowledged: readonly Acknowledged[], crash: Crash | undefined): Losses {
  const isAtRisk = ({ answeredAt }: Acknowledged): boolean =>
    crash !== undefined && answeredAt >= crash.keptUntil && answeredAt <= crash.replacedAt;
  const lost = acknowledged.filter(({ entry, outcome }) => outcomeOf(entry.answer) !== outcome);
  return {
    atRisk: acknowledged.filter(isAtRisk).length,
    lost: lost.length,
    forbidden: lost
      .filter((one) => !isAtRisk(one))
      .map(
        ({ entry, outcome }) =>
          `${entry.kind} ${entry.body.idempotency_key}: first ${outcome}, then ${outcomeOf(entry.answer)}`,
      ),
  };
}

/** The longest time between two responses. */
export function longestSilenceMs(acknowledged: readonly Acknowledged[]): number {
  const instants = acknowledged.map(({ answeredAt }) => answeredAt).sort((a, b) => a - b);
  return Math.max(0, ...instants.slice(1).map((at, index) => at - (instants[index] as number)));
}
