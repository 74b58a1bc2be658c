// The figures of reserve and commit, each beside its target.
import { doubts, figure, headline, hundredths, median, range, storeOf, tenths, whole } from './report.mjs';

/**
 * @typedef {import('./types.ts').Phase} Phase
 * @typedef {import('./types.ts').HttpPhase} HttpPhase
 * @typedef {HttpPhase & { connections: number }} ClosedPhase
 * @typedef {{ saturated: ClosedPhase, half: HttpPhase, high: HttpPhase }} Round
 * @typedef {{ us: number, phase: Phase }} ScriptCost
 * @typedef {{ growth: number, record: number, idempotency: number, index: number, total: number }} Bytes  of one live reservation
 * @typedef {{
 *   cost: { reserve: ScriptCost, commit: ScriptCost, bytes: Bytes },
 *   raw: [before: Phase, after: Phase],
 *   levels: ClosedPhase[],
 *   rounds: Round[],
 *   rewriting: HttpPhase,
 * }} ReserveMeasurement
 */

const TARGETS = { ratio: 0.5, reserve_us: 60, commit_us: 50, bytes: 1536 };

const HEAD = [
  'phase',
  '',
  'operations/s',
  'of raw',
  'p50 ms',
  'p99 ms',
  'max ms',
  'CPU s: service',
  'Redis',
  'load',
  'others',
  'seconds',
];

/**
 * @param {import('ioredis').Redis} redis
 * @param {ReserveMeasurement} measured
 * @returns {Promise<import('./types.ts').Result>}
 */
export async function reserveResult(redis, { cost, raw, levels, rounds, rewriting }) {
  // The machine's speed drifts, so the raw limit is measured before and after the service, and the mean
  // counts.
  const limit = raw.reduce((sum, { per_second }) => sum + per_second, 0) / raw.length;
  const ratios = rounds.map((round) => round.saturated.per_second / limit);
  const saturated = rounds.map((round) => round.saturated);
  /** @param {'server_cpu_s' | 'redis_cpu_s'} cpu */
  const usPerOperation = (cpu) => saturated.map((phase) => (1e6 * phase[cpu]) / phase.operations);
  /** @type {(share: 'half' | 'high', latency: 'p50_ms' | 'p99_ms') => number[]} */
  const latencies = (share, latency) => rounds.map((round) => round[share][latency]);
  const { bytes } = cost;
  /** @type {[name: string, detail: string, phase: Phase][]} */
  const phases = [
    ['raw scripts, pipelined', 'before', raw[0]],
    ...levels.map((phase) => phaseOf('HTTP, closed loop', `${phase.connections} conn.`, phase)),
    ...rounds.flatMap(({ saturated, half, high }, index) => [
      phaseOf(`round ${index + 1}: closed loop`, `${saturated.connections} conn.`, saturated),
      phaseOf(`round ${index + 1}: open loop`, 'half of that', half),
      phaseOf(`round ${index + 1}: open loop`, '80 % of that', high),
    ]),
    ['HTTP, open loop', 'half of the median, log rewritten', rewriting],
    ['raw scripts, pipelined', 'after', raw[1]],
  ];
  /** @type {(name: string, value: number, target: number, text: (value: number) => string, unit: string, more?: string) => import('./types.ts').Figure} */
  const atMost = (name, value, target, text, unit, more = '') =>
    figure(name, `${text(value)} ${unit}${more}`, `≤ ${text(target)} ${unit}`, value <= target);
  return {
    title: 'Reserve and commit',
    command: 'npm run bench -- reserve',
    subject: 'Reserve and commit, three budgeted scopes. One operation is both.',
    store: await storeOf(redis),
    tables: [
      {
        head: HEAD,
        rows: phases.map(([name, detail, phase]) => phaseRow(name, detail, phase, limit)),
        texts: 2,
      },
    ],
    figures: [
      figure(
        'throughput at 200 connections, of the raw limit',
        `${hundredths(median(ratios))}${range(ratios, hundredths)}`,
        `≥ ${hundredths(TARGETS.ratio)}`,
        median(ratios) >= TARGETS.ratio,
      ),
      headline(
        'operations a second at 200 connections',
        saturated.map(({ per_second }) => per_second),
        whole,
      ),
      headline('CPU of an operation there, the service', usPerOperation('server_cpu_s'), whole, ' µs'),
      headline('CPU of an operation there, Redis', usPerOperation('redis_cpu_s'), whole, ' µs'),
      headline('p50 of a request at half of the saturated rate', latencies('half', 'p50_ms'), tenths, ' ms'),
      headline('p99 of a request at half of the saturated rate', latencies('half', 'p99_ms'), tenths, ' ms'),
      headline('p99 of a request at 80 % of the saturated rate', latencies('high', 'p99_ms'), tenths, ' ms'),
      atMost('`reserve` script', cost.reserve.us, TARGETS.reserve_us, tenths, 'µs'),
      atMost('`commit` script', cost.commit.us, TARGETS.commit_us, tenths, 'µs'),
      atMost(
        `live reservation, \`MEMORY USAGE\`: record ${whole(bytes.record)} + idempotency ${whole(bytes.idempotency)} + its share of the TTL index ${whole(bytes.index)}`,
        bytes.total,
        TARGETS.bytes,
        whole,
        'bytes',
      ),
      atMost('the same by growth of `used_memory`', bytes.growth, TARGETS.bytes, whole, 'bytes'),
    ],
    notes: doubts([
      cost.reserve.phase,
      cost.commit.phase,
      ...raw,
      ...levels,
      ...rounds.flatMap(({ saturated, half, high }) => [saturated, half, high]),
    ]),
  };
}

/** @type {(name: string, detail: string, phase: Phase) => [string, string, Phase]} */
const phaseOf = (name, detail, phase) => [name, detail, phase];

/**
 * @param {string} name
 * @param {string} detail
 * @param {Phase} phase
 * @param {number} limit operations a second
 */
function phaseRow(name, detail, phase, limit) {
  const { per_second, p50_ms, p99_ms, max_ms, server_cpu_s, redis_cpu_s, other_cpu_s, cpu_s, elapsed_s } =
    phase;
  const latency =
    p50_ms === undefined || p99_ms === undefined || max_ms === undefined
      ? ['', '', '']
      : [hundredths(p50_ms), hundredths(p99_ms), tenths(max_ms)];
  return [
    name,
    detail,
    whole(per_second),
    hundredths(per_second / limit),
    ...latency,
    tenths(server_cpu_s),
    tenths(redis_cpu_s),
    tenths(cpu_s),
    tenths(other_cpu_s),
    tenths(elapsed_s),
  ];
}
