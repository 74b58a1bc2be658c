// What templates that make budgets cost a reserve: tenants without templates and with a hundred reserve in turn, at a scope that has no
// budget beside three that have one. No template matches it. On a third side, each reserve is the first one of its user.
import { subjectText } from './built.mjs';
import { GrowthLedger } from './growth-ledger.mjs';
import { storeOf } from './report.mjs';
import { askAsAdmin } from './service.mjs';
import { comparedSides, costsOfSides } from './sides.mjs';
import { SUBJECT } from './workload.mjs';

const TEMPLATES = 100;
const TARGET = 1.05;
const NAMES = ['no templates', `${TEMPLATES} templates`, 'a new user each time'];

export const measure = () =>
  GrowthLedger.with(async (ledger) => {
    let users = 0;
    const sides = [];
    for (const index of NAMES.keys()) {
      const tenant = `templates-${index}`;
      const { population } = await ledger.provision(tenant);
      for (let number = 0; index > 0 && number < TEMPLATES; number += 1) {
        await setTemplate(ledger, tenant, `t-${number}`, `tenant:${tenant}/app:app-${number}/agent:*`);
      }
      const { workspace, agent } = SUBJECT;
      if (index === 2) {
        await setTemplate(
          ledger,
          tenant,
          'new',
          `tenant:${tenant}/workspace:${workspace}/agent:${agent}/toolset:*`,
        );
      }
      sides.push({
        population,
        argsOf: () => {
          users += index === 2 ? 1 : 0;
          return {
            subject: subjectText(
              { ...SUBJECT, toolset: `user-${index === 2 ? users : 0}` },
              tenant,
              'TOKENS',
            ),
          };
        },
      });
    }
    const rounds = await costsOfSides(ledger, sides);
    return {
      title: 'Budget templates',
      command: 'npm run bench -- templates',
      subject:
        'A reserve at three budgeted scopes and one without a budget. Processor time is that of the main thread of Redis.',
      store: await storeOf(ledger.redis),
      ...comparedSides(rounds, NAMES, [
        [1, 0, { atMost: TARGET }],
        [2, 0],
      ]),
    };
  });

/**
 * @param {GrowthLedger} ledger
 * @param {string} tenant
 * @param {string} id
 * @param {string} pattern
 */
async function setTemplate(ledger, tenant, id, pattern) {
  await askAsAdmin(ledger.service.port, 'PUT', `/ops/budget-templates/${id}`, {
    tenant_id: tenant,
    scope_pattern: pattern,
    unit: 'TOKENS',
    allocated: { unit: 'TOKENS', amount: 1_000_000 },
  });
}
