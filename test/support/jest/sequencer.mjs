import Sequencer from '@jest/test-sequencer';

/**
 * The longest files, longest first. They start first: one that started last would run alone while the other
 * workers are idle. Jest knows a file's duration only if it has run it before, and otherwise sorts by size.
 */
export const LONGEST = [
  'test/property/credits.test.ts',
  'test/fault/damaged-records.test.ts',
  'test/archive/damage.test.ts',
  'test/runs/runs.test.ts',
  'test/fault/webhooks.test.ts',
  'test/container/container.test.ts',
  'test/webhooks/dispatch-instances.test.ts',
  'test/console/browser-ledger.test.ts',
  'test/cli/doc-commands.test.ts',
  'test/property/spec.test.ts',
  'test/usage/usage.test.ts',
  'test/contracts/openapi-examples.test.ts',
  'test/property/groups.test.ts',
  'test/console/usage-page.test.ts',
  'test/console/forms.test.ts',
  'test/expiry/outages.test.ts',
  'test/archive/published.test.ts',
  'test/fault/archive-store.test.ts',
  'test/console/history-pages.test.ts',
  'test/console/operations-pages.test.ts',
  'test/cli/up.test.ts',
  'test/app/workers.test.ts',
  'test/fault/archive-killed.test.ts',
  'test/fault/crash-consistency.test.ts',
  'test/webhooks/silent-names.test.ts',
  'test/fault/cluster.test.ts',
  'test/cluster/failover.test.ts',
  'test/fault/paused-redis.test.ts',
  'test/webhooks/dispatch-fairness.test.ts',
  'test/fault/redis-connection.test.ts',
  'test/console/browser.test.ts',
  'test/http/list-reservations-order.test.ts',
  'test/usage/query-process.test.ts',
  'test/property/fuzz.test.ts',
  'test/property/ledger.test.ts',
  'test/redis/limited-queries.test.ts',
  'test/console/sweeper-page.test.ts',
  'test/property/fuzz-memory.test.ts',
  'test/contracts/operations.test.ts',
  'test/fault/cut-log.test.ts',
];

/** What a file takes of a worker on an idle machine with two processors, if jest has not measured it before. */
const USUAL_MS = 5000;
const LONG_MS = 40_000;

// Its types describe the CommonJS build, in which the class is `default`; an ES module imports the class itself.
const Base = /** @type {typeof Sequencer.default} */ (/** @type {unknown} */ (Sequencer));

/** @typedef {Parameters<InstanceType<typeof Base>['sort']>[0]} Tests */

/** @param {string} path */
function rankOf(path) {
  const place = LONGEST.findIndex((file) => path.endsWith(`/${file}`));
  return place === -1 ? LONGEST.length : place;
}

export default class LongestFirst extends Base {
  /**
   * The files of this run.
   * @type {readonly Tests[number][]}
   */
  static planned = [];

  /**
   * The milliseconds that a file took last time if jest knows it, and otherwise what is usual.
   * @param {Tests[number]} test
   */
  static expectedMs({ path, duration }) {
    return duration ?? (rankOf(path) < LONGEST.length ? LONG_MS : USUAL_MS);
  }

  /**
   * @override
   * @param {Tests} tests
   */
  async sort(tests) {
    const order = [...(await super.sort(tests))].sort((one, other) => rankOf(one.path) - rankOf(other.path));
    LongestFirst.planned = order;
    return order;
  }
}
