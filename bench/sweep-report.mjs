// The figures of the sweeper's benchmark as Markdown, each beside its target.
import { conditions, disturbance, row, tenths, verdict, whole } from './report.mjs';

const TARGETS = { per_second: 20_000, p99_ms: 250, max_ms: 1000, times: 2, idle: 0.01 };

const megabytes = (bytes) => `${Math.round(bytes / 1024 / 1024)} MB`;
const percent = (share) => `${(share * 100).toFixed(1)} %`;

export async function sweepReport(redis, { idle, steady, alone, saturated, calm, beside, grace }) {
  const times = beside.result.p99_ms / calm.result.p99_ms;
  const cost = idle.sweeper.service + idle.sweeper.redis - idle.without.service - idle.without.redis;
  const early = Math.min(steady.min_ms, alone.lateness.min_ms, beside.lateness.min_ms, grace.min_ms);
  return [
    '',
    `The sweeper, three budgeted scopes a hold, 16 tenants. \`npm run bench -- sweep\`, ${await conditions(redis)}`,
    '',
    row('phase', 'expired', 'a second', 'lateness p50 ms', 'p99 ms', 'max ms', 'request p50 ms', 'p99 ms', 'probe p99 ms', 'max ms', 'CPU s: service', 'Redis', 'seconds', 'memory'),
    row('---', '--:', '--:', '--:', '--:', '--:', '--:', '--:', '--:', '--:', '--:', '--:', '--:', '--:'),
    row('steady', whole(steady.count), '500', ...latenessCells(steady), '', '', '', '', '', '', '20.0', ''),
    phaseRow('half load, no backlog', calm),
    phaseRow('backlog, nothing beside it', alone),
    phaseRow(`backlog beside half load (${whole(saturated.per_second / 2)} operations a second)`, beside),
    row(`${whole(grace.held)} in grace, ${grace.due} due behind them`, whole(grace.count), '', ...latenessCells(grace), '', '', '', '', '', '', '', ''),
    '',
    row('figure', 'measured', 'target', ''),
    row('---', '--:', '--:', '---'),
    row('steady state: lateness p99', `${steady.p99_ms} ms`, `≤ ${TARGETS.p99_ms} ms`, verdict(steady.p99_ms <= TARGETS.p99_ms)),
    row('steady state: lateness max', `${steady.max_ms} ms`, `≤ ${TARGETS.max_ms} ms`, verdict(steady.max_ms <= TARGETS.max_ms)),
    row('steady state: expired of those made', `${whole(steady.count)} of ${whole(steady.made)}`, 'all', verdict(steady.count === steady.made)),
    row('never early: least lateness of all phases', `${early} ms`, '> 0 ms', verdict(early > 0)),
    row('drain of 100,000, nothing beside it', `${whole(alone.per_second)} a second`, `≥ ${whole(TARGETS.per_second)}`, verdict(alone.per_second >= TARGETS.per_second)),
    row('drain of 100,000 beside half load', `${whole(beside.per_second)} a second`, `≥ ${whole(TARGETS.per_second)}`, verdict(beside.per_second >= TARGETS.per_second)),
    row('request p99 beside the drain, times that without it', times.toFixed(2), `≤ ${TARGETS.times}`, verdict(times <= TARGETS.times)),
    row('longest wait of a probing client beside the drain', `${tenths(beside.wait_max_ms)} ms`, `(without it ${tenths(calm.wait_max_ms)} ms)`, ''),
    row('memory of the process beside the drain', `${megabytes(beside.rss_before)} to ${megabytes(beside.rss_max)}`, `(without it up to ${megabytes(calm.rss_max)})`, ''),
    row('due behind 1,500 in grace: expired, left in the index', `${grace.count}, ${whole(grace.left)}`, `${grace.due}, ${whole(grace.held)}`, verdict(grace.count === grace.due && grace.left === grace.held)),
    row('idle sweeper of 64 partitions, service and Redis', percent(cost), `≤ ${percent(TARGETS.idle)} of a core`, verdict(cost <= TARGETS.idle)),
    '',
    ...disturbance([calm, alone, beside]),
  ].join('\n');
}

function latenessCells({ p50_ms, p99_ms, max_ms }) {
  return [whole(p50_ms), whole(p99_ms), whole(max_ms)];
}

function phaseRow(name, phase) {
  const { count, per_second, lateness, result, wait_p99_ms, wait_max_ms, server_cpu_s, redis_cpu_s, elapsed_s, rss_max } = phase;
  return row(
    name,
    count === undefined ? '' : whole(count),
    per_second === undefined ? '' : whole(per_second),
    ...(lateness === undefined ? ['', '', ''] : latenessCells(lateness)),
    ...(result === undefined ? ['', ''] : [result.p50_ms.toFixed(2), result.p99_ms.toFixed(2)]),
    tenths(wait_p99_ms),
    tenths(wait_max_ms),
    tenths(server_cpu_s),
    tenths(redis_cpu_s),
    tenths(elapsed_s),
    megabytes(rss_max),
  );
}
