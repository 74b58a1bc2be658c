/** The figures of one round of a soak. */
export interface RoundFigures {
  readonly requests: number;
  readonly acknowledged: number;
  /** Requests without a response at first; they were repeated until they got one. */
  readonly unanswered: number;
  readonly atRisk: number;
  readonly lost: number;
  /** Lost, although they were not at risk. */
  readonly forbidden: number;
  /** Requests about reservations that a failover had lost. */
  readonly unknown: number;
  readonly expired: number;
  readonly rollovers: number;
  readonly events: number;
  readonly silenceMs: number;
}

interface FaultFigures {
  rounds: number;
  atRisk: number;
  lost: number;
  silenceMs: number;
}

const ZERO: RoundFigures = {
  requests: 0,
  acknowledged: 0,
  unanswered: 0,
  atRisk: 0,
  lost: 0,
  forbidden: 0,
  unknown: 0,
  expired: 0,
  rollovers: 0,
  events: 0,
  silenceMs: 0,
};

/** Adds up the figures by name; of the silences, takes the longest. */
export function sumOf(all: readonly RoundFigures[]): RoundFigures {
  const sum: Record<keyof RoundFigures, number> = { ...ZERO };
  for (const figures of all) {
    for (const name of Object.keys(ZERO) as (keyof RoundFigures)[]) {
      sum[name] = name === 'silenceMs' ? Math.max(sum[name], figures[name]) : sum[name] + figures[name];
    }
  }
  return sum;
}

const count = (figure: number): string => figure.toLocaleString('en-US');
const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;

/** The report of a soak: lines that go into docs/testing.md unchanged. */
export class SoakReport {
  private readonly faults = new Map<string, FaultFigures>();
  private readonly rounds: RoundFigures[] = [];

  add(fault: string, figures: RoundFigures): void {
    this.rounds.push(figures);
    const former = this.faults.get(fault) ?? { rounds: 0, atRisk: 0, lost: 0, silenceMs: 0 };
    this.faults.set(fault, {
      rounds: former.rounds + 1,
      atRisk: former.atRisk + figures.atRisk,
      lost: former.lost + figures.lost,
      silenceMs: Math.max(former.silenceMs, figures.silenceMs),
    });
  }

  lines(more: readonly (readonly [string, string])[]): string[] {
    const all = sumOf(this.rounds);
    const figures: (readonly [string, string])[] = [
      ['Rounds', count(this.rounds.length)],
      ['Requests', count(all.requests)],
      ['Acknowledged at once', count(all.acknowledged)],
      ['Without an answer, and sent again until they got one', count(all.unanswered)],
      ['Acknowledged while they could be lost, by the durability table', count(all.atRisk)],
      ['Lost of these', count(all.lost)],
      ['Lost of all others', count(all.forbidden)],
      ['Requests about a reservation that was lost', count(all.unknown)],
      ['Sent once more at the end of their round, all of them', count(all.requests)],
      ['Reservations that expired', count(all.expired)],
      ['Rollovers, each once and at its boundary', count(all.rollovers)],
      ['Events that the endpoint had to be told of', count(all.events)],
      ...more,
    ];
    return [
      '| | |',
      '| --- | --: |',
      ...figures.map(([name, value]) => `| ${name} | ${value} |`),
      '',
      '| Fault | Rounds | Could be lost | Lost | Longest time without an answer for a tenant |',
      '| --- | --: | --: | --: | --: |',
      ...[...this.faults].map(
        ([fault, { rounds, atRisk, lost, silenceMs }]) =>
          `| ${fault} | ${rounds} | ${count(atRisk)} | ${count(lost)} | ${seconds(silenceMs)} |`,
      ),
    ];
  }
}
