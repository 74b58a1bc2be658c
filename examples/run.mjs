// npm run example -- <name>: runs an example against a Holdfast that serves already. Each prepares a tenant of its own, and starts a
// made-up provider, which needs no network.
// Exit codes: 0 it ran; 1 it did not, for the reason that is printed.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { ROOT, SetupError, checkNode, ensureDependencies, runCommand } from '../scripts/install.mjs';
import { ensureGateway, startGateway } from './gateway.mjs';
import { HOLDFAST_URL, prepareTenant, summaryOf } from './ledger.mjs';
import { startUpstream } from './upstream.mjs';

/** @typedef {{ url?: string, stop: () => unknown }} Gateway */

/**
 * Its budgets, and what stands between its program and the provider: `prepare` installs that, `start` starts it.
 * @typedef {object} Example
 * @property {import('./ledger.mjs').Budget[]} budgets
 * @property {() => unknown} prepare
 * @property {(prepared: unknown, env: Record<string, string>) => Gateway | Promise<Gateway>} start
 */

const behindLiteLlm = {
  prepare: ensureGateway,
  start: (/** @type {unknown} */ python, /** @type {Record<string, string>} */ env) =>
    startGateway(/** @type {string} */ (python), env),
};

/** @type {Record<string, Example>} */
const EXAMPLES = {
  'ai-sdk': {
    budgets: [{ scope: '', dollars: 0.001 }],
    prepare: () =>
      run(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', 'integrations/ai-sdk']),
    start: () => ({ stop: () => undefined }),
  },
  litellm: {
    budgets: [
      { scope: '/workspace:red', dollars: 0.0008 },
      { scope: '/workspace:red/agent:ann', dollars: 0.0004 },
      { scope: '/workspace:blue', dollars: 0.001 },
    ],
    ...behindLiteLlm,
  },
  openai: { budgets: [{ scope: '/workspace:red', dollars: 0.001 }], ...behindLiteLlm },
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
  const prepared = await example.prepare();
  const tenant = await prepareTenant(name, example.budgets);
  const upstream = await startUpstream();
  const env = {
    UPSTREAM_URL: upstream.url,
    HOLDFAST_URL,
    HOLDFAST_TENANT: tenant.tenant,
    HOLDFAST_API_KEY: tenant.apiKey,
  };
  try {
    const gateway = await example.start(prepared, env);
    try {
      await run(process.execPath, [join(ROOT, 'examples', name, 'program.mjs')], {
        ...env,
        GATEWAY_URL: gateway.url ?? '',
      });
      process.stdout.write(`The provider billed ${upstream.calls()} calls. The ledger says:\n`);
      process.stdout.write(`${(await summaryOf(tenant)).join('\n')}\n`);
    } finally {
      await gateway.stop();
    }
  } finally {
    upstream.stop();
  }
  return 0;
});
