// Whether the archiver keeps up with 5,000 ends a second beside the load, and what that costs the requests: a service with the default settings and
// one whose roles leave the archiver out, one after the other, at the same rate. A third one archives what a closed loop left, besides.
import { unlessShort } from './duration.mjs';
import { Harness } from './harness.mjs';
import { aim, hundredths, say, storeOf, tableOf, tenths, whole } from './report.mjs';
import { adminHeaders } from './service.mjs';

const CONNECTIONS = 16;
const PER_REQUEST = 50;
/** Ends a second, or this share of what a closed loop reaches on a machine that cannot do that. */
const OFFERED = 5000;
const SHARE = 0.8;
const WARM_UP_SECONDS = unlessShort(2, 1);
const CLOSED_SECONDS = unlessShort(3, 1);
/** Nothing is archived in the first five seconds, because it has not settled, and a file is written of 20,000 rows. */
const HEAD_START_SECONDS = unlessShort(6, 1);
/** Until it is on time. */
const HEAD_STARTS = 3;
const SECONDS = unlessShort(8, 2);
const SETTLE_SECONDS = 5;
const FILE_ROWS = 20_000;
/** For a turn of the archiver, and for the file that it writes. */
const TURN_SECONDS = 3;
const COST = 1.1;
const WITHOUT = {
  name: 'without the archiver',
  settings: { HOLDFAST_ROLES: 'api,sweeper,dispatcher,janitor' },
};
const ON_TIME = { name: 'with the archiver, on time', settings: {} };
const BACKLOG = { name: 'with the archiver, which works off a backlog', settings: {} };

/** @typedef {import('./types.ts').HttpPhase & { name: string, rows_per_second: number, lag_s: number }} Side */

/** @type {Record<string, (side: Side) => string>} */
const COLUMNS = {
  '': ({ name }) => name,
  'ends/s': ({ per_second }) => whole(per_second),
  'p50 ms': ({ p50_ms }) => hundredths(p50_ms),
  'p99 ms': ({ p99_ms }) => hundredths(p99_ms),
  'rows/s': ({ rows_per_second }) => whole(rows_per_second),
  'µs of the service': (one) => whole((one.server_cpu_s * 1e6) / one.operations),
  'µs of Redis': (one) => whole((one.redis_cpu_s * 1e6) / one.operations),
};

/** @returns {Promise<import('./types.ts').Measured>} */
export async function measure() {
  let rate = OFFERED;
  let store = '';
  /** @type {(how: { name: string, settings: Readonly<Record<string, string>> }) => Promise<Side>} */
  const side = ({ name, settings }) =>
    Harness.with({ settings }, async (harness) => {
      await harness.target();
      say(name);
      await harness.saturate(CONNECTIONS, WARM_UP_SECONDS, { perRequest: PER_REQUEST });
      if (name !== ON_TIME.name) {
        const closed = await harness.saturate(CONNECTIONS, CLOSED_SECONDS, { perRequest: PER_REQUEST });
        if (name === WITHOUT.name) {
          rate = Math.max(PER_REQUEST, Math.min(OFFERED, Math.floor(SHARE * closed.per_second)));
        }
      }
      await headStart(harness, rate, name === ON_TIME.name ? HEAD_STARTS : 1);
      const before = await archivedRows(harness.service.port);
      const phase = await harness.paced(rate, SECONDS, { perRequest: PER_REQUEST });
      const rows = (await archivedRows(harness.service.port)) - before;
      store = await storeOf(harness.redis);
      return {
        ...phase,
        name,
        rows_per_second: rows / phase.elapsed_s,
        lag_s: await lagOf(harness.service.port),
      };
    });
  const without = await side(WITHOUT);
  const archived = await side(ON_TIME);
  const late = await side(BACKLOG);
  const cpuOf = (/** @type {Side} */ one) => (one.server_cpu_s + one.redis_cpu_s) / one.operations;
  return {
    title: 'Archive',
    command: 'npm run bench -- archive',
    subject: `Reserve and commit at three budgeted scopes in batches of ${PER_REQUEST}, ${whole(rate)} ends a second of one tenant in an open loop.`,
    store,
    tables: [tableOf([without, archived, late], COLUMNS, 1)],
    figures: [
      aim('ends a second, offered', [rate], { atLeast: OFFERED }),
      aim('the longest that an entry has waited, at the end', [archived.lag_s], {
        text: tenths,
        unit: ' s',
        atMost: onTimeSeconds(rate),
        isHeadline: true,
      }),
      // They come a file at a time.
      aim('rows archived a second beside the load', [archived.rows_per_second], {
        atLeast: Math.max(0, rate - FILE_ROWS / SECONDS),
      }),
      aim('p50 of the requests, with the archiver on time: ratio', [archived.p50_ms / without.p50_ms], {
        text: hundredths,
        atMost: COST,
        isHeadline: true,
      }),
      aim('the same while it works off a backlog', [late.p50_ms / without.p50_ms], { text: hundredths }),
      aim(
        'CPU of an end with the archiver on time, service and Redis: ratio',
        [cpuOf(archived) / cpuOf(without)],
        {
          text: hundredths,
        },
      ),
    ],
  };
}

/**
 * The load of the measured phase, until the archiver is on time.
 * @param {Harness} harness
 * @param {number} rate
 * @param {number} atMost
 */
async function headStart(harness, rate, atMost) {
  for (let starts = 0, lag = Infinity; starts < atMost && lag > onTimeSeconds(rate); starts += 1) {
    await harness.paced(rate, HEAD_START_SECONDS, { perRequest: PER_REQUEST });
    lag = await lagOf(harness.service.port);
  }
}

/** How old the oldest entry is before its file is written. */
const onTimeSeconds = (/** @type {number} */ rate) => SETTLE_SECONDS + FILE_ROWS / rate + TURN_SECONDS;

const lagOf = (/** @type {number} */ port) => metric(port, 'holdfast_archive_lag_seconds{');

const archivedRows = (/** @type {number} */ port) =>
  metric(port, 'holdfast_archive_rows_total{stream="charges",');

/**
 * 0 if it has never moved.
 * @param {number} port
 * @param {string} series how its line begins; each series also has labels of the service
 */
async function metric(port, series) {
  const response = await fetch(`http://127.0.0.1:${port}/metrics`, { headers: adminHeaders });
  const line = (await response.text()).split('\n').find((one) => one.startsWith(series));
  return Number(line?.slice(line.lastIndexOf(' ')) ?? 0);
}
