// What a policy's quotas cost a reserve: tenants without a policy, with one, and with four quotas reserve in
// turn.
import { GrowthLedger } from './growth-ledger.mjs';
import { storeOf } from './report.mjs';
import { askAsAdmin } from './service.mjs';
import { comparedSides, costsOfSides } from './sides.mjs';

/** Higher than all counts here, so that no reserve is refused and no threshold is crossed. */
const MAX_CALLS = 100_000;
const TARGET = 1.15;

const KIND = 'llm.completion';
const quota = (/** @type {string} */ window) => ({ action_kind: KIND, max_calls: MAX_CALLS, window });
const CALENDAR = ['per_minute_tumbling', 'per_hour_tumbling', 'per_day_tumbling'].map(quota);
const RISK = { risk_class: 'side_effect', max_calls: MAX_CALLS, window: 'per_tenant_per_day' };

/** @type {readonly { name: string, rules: object | undefined, run: string }[]} */
const SIDES = [
  { name: 'no policy', rules: undefined, run: '' },
  { name: 'a policy without quotas', rules: {}, run: '' },
  { name: 'four quotas', rules: { action_quotas: CALENDAR, risk_class_quotas: [RISK] }, run: '' },
  {
    name: 'three and one by run',
    rules: { action_quotas: [...CALENDAR, quota('per_run')] },
    run: 'run-1',
  },
];

export const measure = () =>
  GrowthLedger.with(async (ledger) => {
    const sides = [];
    for (const [index, { rules, run }] of SIDES.entries()) {
      const actionFacts = `side_effect|${run}|||`;
      sides.push({
        population: await sideOf(ledger, `quotas-${index}`, rules),
        argsOf: () => ({ actionFacts }),
      });
    }
    const rounds = await costsOfSides(ledger, sides);
    return {
      title: 'Quotas',
      command: 'npm run bench -- quotas',
      subject: 'A reserve at three budgeted scopes. Processor time is that of the main thread of Redis.',
      store: await storeOf(ledger.redis),
      ...comparedSides(
        rounds,
        SIDES.map(({ name }) => name),
        [
          [2, 1, { atMost: TARGET }],
          [2, 0],
          [3, 1],
          [1, 0],
        ],
      ),
    };
  });

/**
 * A tenant with budgets at three scopes, and a policy for them unless there are no rules.
 * @param {GrowthLedger} ledger
 * @param {string} tenant
 * @param {object | undefined} rules
 */
async function sideOf(ledger, tenant, rules) {
  const { population } = await ledger.provision(tenant);
  if (rules !== undefined) {
    await askAsAdmin(ledger.service.port, 'POST', '/v1/admin/policies', {
      tenant_id: tenant,
      name: 'benchmark',
      scope_pattern: `tenant:${tenant}`,
      ...rules,
    });
  }
  return population;
}
