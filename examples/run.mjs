// npm run example -- <name>: runs an example against a Holdfast that serves already. Each prepares a tenant of its own, and starts a
// made-up provider, which needs no network.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { ROOT, SetupError, checkNode, ensureDependencies, runCommand } from '../scripts/install.mjs';
import { HOLDFAST_URL, balancesOf, prepareTenant } from './ledger.mjs';
import { startUpstream } from './upstream.mjs';

/** @typedef {Awaited<ReturnType<typeof prepareTenant>>} Tenant */

/**
 * Each with its budgets, and with what it does before its program starts.
 * @type {Record<string, { budgets: import('./ledger.mjs').Budget[], prepare: () => Promise<void>, program: string[] }>}
 */
const EXAMPLES = {
  'ai-sdk': {
    budgets: [{ scope: '', dollars: 0.001 }],
    prepare: () =>
      run(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', 'integrations/ai-sdk']),
    program: [process.execPath, join(ROOT, 'examples/ai-sdk/program.mjs')],
  },
};

/**
 * @param {string} command
 * @param {string[]} args
 * @param {Record<string, string>} [env]
 */
async function run(command, args, env = {}) {
  const child = spawn(command, args, { cwd: ROOT, stdio: 'inherit', env: { ...process.env, ...env } });
  await once(child, 'close');
  if (child.exitCode !== 0) {
    throw new SetupError(`${[command, ...args].join(' ')} did not succeed`);
  }
}

runCommand(async () => {
  const [name = '', ...more] = process.argv.slice(2);
  const example = EXAMPLES[name];
  if (example === undefined || more.length > 0) {
    throw new SetupError(`name one example: ${Object.keys(EXAMPLES).join(', ')}`);
  }
  checkNode();
  ensureDependencies();
  await example.prepare();
  const tenant = await prepareTenant(name, example.budgets);
  const upstream = await startUpstream();
  try {
    const [command = '', ...args] = example.program;
    await run(command, args, {
      UPSTREAM_URL: upstream.url,
      HOLDFAST_URL,
      HOLDFAST_TENANT: tenant.tenant,
      HOLDFAST_API_KEY: tenant.apiKey,
    });
    process.stdout.write(`The provider billed ${upstream.calls()} calls. The ledger says:\n`);
    process.stdout.write(`${(await balancesOf(tenant)).join('\n')}\n`);
  } finally {
    upstream.stop();
  }
  return 0;
});
