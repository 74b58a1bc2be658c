// The figures of a run as Markdown, each beside its target.
import { cpus, release } from 'node:os';

const TARGETS = { ratio: 0.35, p99_ms: 10, reserve_us: 60, commit_us: 50, bytes: 1536 };

/** What the rest of a machine uses when nothing else is going on there. */
const QUIET_PERCENT = 8;

export const whole = (value) => Math.round(value).toLocaleString('en-US');
export const tenths = (value) => value.toFixed(1);
export const verdict = (met) => (met ? 'met' : '**missed**');
export const row = (...cells) => `| ${cells.join(' | ')} |`;

export async function report(redis, { cost, raw, levels, paced, rewriting }) {
  // The machine's speed drifts, so the raw limit is taken before and after the service, and the mean counts.
  const limit = raw.reduce((sum, { per_second }) => sum + per_second, 0) / raw.length;
  const ratio = levels.at(-1).per_second / limit;
  const phases = [
    ['raw scripts, pipelined', 'before', raw[0]],
    ...levels.map((phase) => ['HTTP, closed loop', `${phase.connections} conn.`, phase]),
    ['HTTP, open loop', 'half rate', paced],
    ['HTTP, open loop', 'half rate, log rewritten', rewriting],
    ['raw scripts, pipelined', 'after', raw[1]],
  ];
  return [
    '',
    `Reserve and commit, three budgeted scopes. One operation is both. \`npm run bench -- reserve\`, ${await conditions(redis)}`,
    '',
    row('phase', '', 'operations/s', 'of raw', 'p50 ms', 'p99 ms', 'max ms', 'CPU s: service', 'Redis', 'load', 'others', 'seconds'),
    row('---', '---', '--:', '--:', '--:', '--:', '--:', '--:', '--:', '--:', '--:', '--:'),
    ...phases.map(([name, detail, phase]) => phaseRow(name, detail, phase, limit)),
    '',
    row('figure', 'measured', 'target', ''),
    row('---', '--:', '--:', '---'),
    row('throughput at 200 connections, of the raw limit', ratio.toFixed(2), `≥ ${TARGETS.ratio}`, verdict(ratio >= TARGETS.ratio)),
    row('p99 of a request at half of the saturated rate', `${tenths(paced.p99_ms)} ms`, `≤ ${TARGETS.p99_ms} ms`, verdict(paced.p99_ms <= TARGETS.p99_ms)),
    row('`reserve` script', `${tenths(cost.reserve.us)} µs`, `≤ ${TARGETS.reserve_us} µs`, verdict(cost.reserve.us <= TARGETS.reserve_us)),
    row('`commit` script', `${tenths(cost.commit.us)} µs`, `≤ ${TARGETS.commit_us} µs`, verdict(cost.commit.us <= TARGETS.commit_us)),
    row(
      `live reservation, \`MEMORY USAGE\`: record ${whole(cost.bytes.record)} + idempotency ${whole(cost.bytes.idempotency)} + its share of the TTL index ${whole(cost.bytes.index)}`,
      `${whole(cost.bytes.total)} bytes`,
      `≤ ${whole(TARGETS.bytes)} bytes`,
      verdict(cost.bytes.total <= TARGETS.bytes),
    ),
    row('the same by growth of `used_memory`', `${whole(cost.bytes.growth)} bytes`, `≤ ${whole(TARGETS.bytes)} bytes`, verdict(cost.bytes.growth <= TARGETS.bytes)),
    '',
    ...disturbance([cost.reserve.phase, cost.commit.phase, ...raw, ...levels, paced]),
  ].join('\n');
}

function phaseRow(name, detail, phase, limit) {
  const { per_second, p50_ms, p99_ms, max_ms, server_cpu_s, redis_cpu_s, other_cpu_s, cpu_s, elapsed_s } = phase;
  const latency = p50_ms === undefined ? ['', '', ''] : [p50_ms.toFixed(2), p99_ms.toFixed(2), tenths(max_ms)];
  const service = server_cpu_s === undefined ? 'unknown' : tenths(server_cpu_s);
  return row(name, detail, whole(per_second), (per_second / limit).toFixed(2), ...latency, service, tenths(redis_cpu_s), tenths(cpu_s), tenths(other_cpu_s), tenths(elapsed_s));
}

/** A run that had to share the processors with strangers is no measurement, and says so itself. */
export function disturbance(phases) {
  const seconds = phases.reduce((sum, { elapsed_s }) => sum + elapsed_s, 0) * cpus().length;
  const others = phases.reduce((sum, { other_cpu_s }) => sum + other_cpu_s, 0);
  const share = Math.round((100 * others) / seconds);
  return share <= QUIET_PERCENT ? [] : [`Not to be relied on: other processes used ${share} % of the processors during the run.`, ''];
}

export async function conditions(redis) {
  const [server, memory] = await Promise.all([redis.info('server'), redis.info('memory')]);
  const read = (info, name) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? 'unknown';
  const [, fsync] = await redis.config('GET', 'appendfsync');
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'}, ${process.platform} ${release()}`;
  const store = `Redis ${read(server, 'redis_version')} embedded, AOF ${fsync}, ${read(memory, 'used_memory_human')} at the end`;
  return `${new Date().toISOString().slice(0, 10)}; ${machine}; Node.js ${process.versions.node}; ${store}.`;
}
