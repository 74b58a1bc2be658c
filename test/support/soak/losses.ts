import type { Crash } from '../cluster-site.js';
import { outcomeOf, type Entry } from '../journaled-load.js';

/** What a client had been told before everything was sent once more. */
export interface Acknowledged {
  readonly entry: Entry;
  readonly outcome: string;
  readonly answeredAt: number;
}

export interface Losses {
  /** Answers that the durability table lets a failover lose: those after the last moment at which the replica had everything. */
  readonly atRisk: number;
  /** Answers that came out differently when they were sent again. */
  readonly lost: number;
  /** Those of them that nothing may lose. */
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
 * Compares what was acknowledged with the answers now.
 * @param crash that of the master which had the tenant, if there was one
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

/** The longest time between two answers. */
export function longestSilenceMs(acknowledged: readonly Acknowledged[]): number {
  const instants = acknowledged.map(({ answeredAt }) => answeredAt).sort((a, b) => a - b);
  return Math.max(0, ...instants.slice(1).map((at, index) => at - (instants[index] as number)));
}
