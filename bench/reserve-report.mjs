// The figures of reserve and commit, each beside its target.
import { doubts, figure, storeOf, tenths, whole } from './report.mjs';

const TARGETS = { ratio: 0.5, p99_ms: 25, half_p99_ms: 10, reserve_us: 60, commit_us: 50, bytes: 1536 };

const HEAD = ['phase', '', 'operations/s', 'of raw', 'p50 ms', 'p99 ms', 'max ms', 'CPU s: service', 'Redis', 'load', 'others', 'seconds'];

export async function reserveResult(redis, { cost, raw, levels, half, high, rewriting }) {
  // The machine's speed drifts, so the raw limit is taken before and after the service, and the mean counts.
  const limit = raw.reduce((sum, { per_second }) => sum + per_second, 0) / raw.length;
  const ratio = levels.at(-1).per_second / limit;
  const { bytes } = cost;
  const phases = [
    ['raw scripts, pipelined', 'before', raw[0]],
    ...levels.map((phase) => ['HTTP, closed loop', `${phase.connections} conn.`, phase]),
    ['HTTP, open loop', 'half rate', half],
    ['HTTP, open loop', '80 % of the rate', high],
    ['HTTP, open loop', 'half rate, log rewritten', rewriting],
    ['raw scripts, pipelined', 'after', raw[1]],
  ];
  const atMost = (name, value, target, text, unit) => figure(name, `${text(value)} ${unit}`, `≤ ${text(target)} ${unit}`, value <= target);
  return {
    title: 'Reserve and commit',
    command: 'npm run bench -- reserve',
    subject: 'Reserve and commit, three budgeted scopes. One operation is both.',
    store: await storeOf(redis),
    tables: [{ head: HEAD, rows: phases.map(([name, detail, phase]) => phaseRow(name, detail, phase, limit)), texts: 2 }],
    figures: [
      figure('throughput at 200 connections, of the raw limit', ratio.toFixed(2), `≥ ${TARGETS.ratio.toFixed(2)}`, ratio >= TARGETS.ratio),
      atMost('p99 of a request at 80 % of the saturated rate', high.p99_ms, TARGETS.p99_ms, tenths, 'ms'),
      atMost('p99 of a request at half of the saturated rate', half.p99_ms, TARGETS.half_p99_ms, tenths, 'ms'),
      atMost('`reserve` script', cost.reserve.us, TARGETS.reserve_us, tenths, 'µs'),
      atMost('`commit` script', cost.commit.us, TARGETS.commit_us, tenths, 'µs'),
      atMost(
        `live reservation, \`MEMORY USAGE\`: record ${whole(bytes.record)} + idempotency ${whole(bytes.idempotency)} + its share of the TTL index ${whole(bytes.index)}`,
        bytes.total, TARGETS.bytes, whole, 'bytes',
      ),
      atMost('the same by growth of `used_memory`', bytes.growth, TARGETS.bytes, whole, 'bytes'),
    ],
    notes: doubts([cost.reserve.phase, cost.commit.phase, ...raw, ...levels, half, high]),
  };
}

function phaseRow(name, detail, phase, limit) {
  const { per_second, p50_ms, p99_ms, max_ms, server_cpu_s, redis_cpu_s, other_cpu_s, cpu_s, elapsed_s } = phase;
  const latency = p50_ms === undefined ? ['', '', ''] : [p50_ms.toFixed(2), p99_ms.toFixed(2), tenths(max_ms)];
  const service = server_cpu_s === undefined ? 'unknown' : tenths(server_cpu_s);
  return [name, detail, whole(per_second), (per_second / limit).toFixed(2), ...latency, service, tenths(redis_cpu_s), tenths(cpu_s), tenths(other_cpu_s), tenths(elapsed_s)];
}
