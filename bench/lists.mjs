// How long the console's list of 5,000 budgets takes, alone and beside reserves, and what it takes of Redis.
import { inTurn } from './client.mjs';
import { unlessShort } from './duration.mjs';
import { Harness } from './harness.mjs';
import { aim, hundredths, say, storeOf } from './report.mjs';
import { addBudget, askAsAdmin } from './service.mjs';

const BUDGETS = 5000;
const AT_ONCE = 20;
/** Odd, so that there is a median. */
const LISTS = unlessShort(15, 1);
const SECONDS = unlessShort(10, 1);
const RATE = unlessShort(500, 100);
const WARM_UP_LISTS = 5;
/** What queries may take of Redis' time: `queryTimeShare` of src/config/constants.ts. */
const SHARE = 0.25;
/** The first page, so no order of budgets is known yet. */
const PATH = '/v1/admin/budgets?tenant_id=bench&sort_by=used&sort_dir=desc&limit=50';

/** @returns {Promise<import('./types.ts').Measured>} */
export const measure = () =>
  Harness.with({}, async (harness) => {
    const { port } = harness.service;
    await harness.target();
    say(`${BUDGETS} budgets`);
    await inTurn([...Array(BUDGETS).keys()], AT_ONCE, (number) =>
      addBudget(port, 'bench', `tenant:bench/agent:a-${number}`, 1000 + number),
    );
    const list = async () => {
      const start = performance.now();
      await askAsAdmin(port, 'GET', PATH);
      return performance.now() - start;
    };
    for (let warm = 0; warm < WARM_UP_LISTS; warm += 1) {
      await list();
    }
    const alone = [];
    while (alone.length < LISTS) {
      alone.push(await list());
    }
    const before = await harness.paced(RATE, SECONDS);
    let [isOver, listed] = [false, 0];
    const listing = (async () => {
      while (!isOver) {
        await askAsAdmin(port, 'GET', PATH);
        listed += 1;
      }
    })();
    const beside = await harness.paced(RATE, SECONDS);
    isOver = true;
    await listing;
    return {
      title: 'Lists of budgets',
      subject: `The first page of ${BUDGETS} budgets by use, alone, and one after the other beside ${RATE} reserves and commits a second.`,
      store: await storeOf(harness.redis),
      tables: [],
      figures: [
        aim('a list, alone', alone, { unit: ' ms', atMost: 1000, isHeadline: true }),
        aim(
          'share of Redis that lists take beside the load',
          (beside.redis_cpu_s - before.redis_cpu_s) / beside.elapsed_s,
          { text: hundredths, atMost: SHARE },
        ),
        aim('lists a second beside the load', listed / beside.elapsed_s, { text: hundredths }),
        aim('p50 of requests beside lists: ratio', beside.p50_ms / before.p50_ms, { text: hundredths }),
      ],
    };
  });
