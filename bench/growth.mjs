// npm run bench -- growth: the cost of operations against the size of the ledger, one curve for each kind of
// size.
import { byBudgets, byLiveReservations, byScopes, bySubscriptions, byTenants } from './growth-curves.mjs';
import { byRateOfDue } from './growth-lateness.mjs';
import { keep, ratiosOf, tableOf } from './growth-page.mjs';
import { watchOthers } from './cpu.mjs';
import { circumstances, doubts, figure, say, today } from './report.mjs';

/** Takes a gigabyte of memory. `--most=5000000` measures more. */
const MOST_LIVE = 1_000_000;

/**
 * @param {{ most?: number }} options
 * @returns {Promise<import('./types.ts').Measured>}
 */
export async function measure({ most = MOST_LIVE }) {
  const shareOfOthers = watchOthers();
  const scopes = await byScopes();
  const { curves: live, store } = await byLiveReservations(most);
  const measured = [
    ...live,
    await byTenants(),
    await byBudgets(),
    scopes,
    await bySubscriptions(),
    await byRateOfDue(),
  ];
  const curves = measured.map(rounded);
  const run = [`${today()}; ${circumstances()}; ${store}.`, ...doubts(shareOfOthers())].join(' ');
  const folder = keep({ run, curves });
  say(`the curves are in ${folder}`);
  return {
    title: 'Growth',
    command: 'npm run bench -- growth',
    subject: 'Cost against size. Processor time is that of the main thread of Redis.',
    store,
    tables: curves.map(tableOf),
    figures: curves.map((curve) =>
      figure(`${curve.title}: largest size beside the smallest`, ratiosOf(curve).join(', ')),
    ),
  };
}

/**
 * More than four digits are not significant.
 * @param {import('./types.ts').Curve} curve
 */
const rounded = (curve) => ({
  ...curve,
  lines: curve.lines.map(({ name, ys }) => ({ name, ys: ys.map((y) => Number(y.toPrecision(4))) })),
});
