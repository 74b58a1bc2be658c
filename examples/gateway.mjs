// LiteLLM's proxy with the callback of integrations/litellm, in the environment that `npm run test:integrations` uses, too.
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ROOT, SetupError } from '../scripts/install.mjs';
import { LITELLM, NO_PYTHON, ensureEnvironment, findPython } from '../scripts/python.mjs';

const FOLDER = join(ROOT, 'examples', 'litellm');
/** Importing the proxy alone takes ten seconds on an idle machine. */
const START_TIMEOUT_MS = 240_000;
const POLL_MS = 200;

/** Installs the environment, which takes minutes the first time. */
export function ensureGateway() {
  const python = findPython();
  if (python === undefined) {
    throw new SetupError(`LiteLLM cannot be installed: ${NO_PYTHON}`);
  }
  return ensureEnvironment(python);
}

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (probe.address());
  probe.close();
  await once(probe, 'close');
  return port;
}

/**
 * Starts the proxy, which ends with this process in any case.
 * @param {string} python
 * @param {Record<string, string>} env of the proxy, such as HOLDFAST_URL
 */
export async function startGateway(python, env) {
  const port = await freePort();
  const words = [
    'litellm',
    '--config',
    join(FOLDER, 'gateway.yaml'),
    '--port',
    String(port),
    '--host',
    '127.0.0.1',
  ];
  const child = spawn(python, [join(LITELLM, 'tests', 'child.py'), ...words], {
    cwd: FOLDER,
    stdio: ['pipe', 'pipe', 'pipe'],
    env: {
      ...process.env,
      PYTHONDONTWRITEBYTECODE: '1',
      LITELLM_LOCAL_MODEL_COST_MAP: 'True',
      LITELLM_TELEMETRY: 'False',
      LITELLM_LOG: 'ERROR',
      // The proxy does not start without one; the example has keys of its own.
      LITELLM_MASTER_KEY: `sk-${randomBytes(32).toString('hex')}`,
      // A team is a workspace, and a user an agent in it.
      HOLDFAST_SUBJECT: 'workspace=team, agent=user',
      HOLDFAST_OUTPUT_TOKENS: '100',
      ...env,
    },
  });
  let isOver = false;
  const ended = once(child, 'close').then(() => {
    isOver = true;
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (/** @type {string} */ text) => (output += text));
  }
  const url = `http://127.0.0.1:${port}`;
  const until = performance.now() + START_TIMEOUT_MS;
  while (!(await answers(`${url}/health/liveliness`))) {
    if (isOver || performance.now() > until) {
      throw new SetupError(`LiteLLM did not start:\n${output}`);
    }
    await delay(POLL_MS);
  }
  const stop = async () => {
    child.kill('SIGTERM');
    child.stdin.end();
    await ended;
  };
  return { url, stop };
}

/** @param {string} url */
const answers = (url) =>
  fetch(url).then(
    ({ ok }) => ok,
    () => false,
  );
