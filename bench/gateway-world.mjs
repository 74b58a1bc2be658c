// What the comparison of gateways needs: LiteLLM's proxy in its environment, the made-up provider of its tests, and a Redis for its counters.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { SetupError, parseJson } from '../scripts/install.mjs';
import { LITELLM, NO_PYTHON, ensureEnvironment, findPython } from '../scripts/python.mjs';
import { until } from './duration.mjs';
import { freePort, keptEnvironment, startRedis } from './service.mjs';

const START_MS = 240_000;
const TESTS = join(LITELLM, 'tests');

/** @type {<Value>(ask: () => Promise<Value>) => Promise<Value>} */
export const eventually = (ask) => until(ask, START_MS, `not so: ${ask.toString()}`);

export class GatewayWorld {
  /** @type {(() => unknown)[]} */
  ends = [];
  folder = mkdtempSync(join(tmpdir(), 'hf-gateways-'));

  /** @param {string} python */
  constructor(python) {
    this.python = python;
  }

  /**
   * @template Value
   * @param {(world: GatewayWorld) => Promise<Value>} work
   */
  static async with(work) {
    const found = findPython();
    if (found === undefined) {
      throw new SetupError(NO_PYTHON);
    }
    const world = new GatewayWorld(ensureEnvironment(found));
    try {
      return await work(world);
    } finally {
      for (const end of world.ends.reverse()) {
        await end();
      }
      rmSync(world.folder, { recursive: true, force: true, maxRetries: 5 });
    }
  }

  /**
   * A child that ends when this process does, at the latest.
   * @param {string} command
   * @param {string[]} args
   * @param {Record<string, string>} env
   */
  start(command, args, env = {}) {
    const child = spawn(command, args, {
      cwd: this.folder,
      stdio: ['pipe', 'ignore', 'ignore'],
      env: { ...keptEnvironment(), NO_PROXY: '127.0.0.1', PYTHONDONTWRITEBYTECODE: '1', ...env },
    });
    child.stdin.on('error', () => undefined);
    const ended = new Promise((done) => child.once('close', done));
    const kill = async () => {
      child.kill('SIGKILL');
      await ended;
    };
    this.ends.push(kill);
    return { kill };
  }

  async upstream() {
    const port = await freePort();
    this.start(this.python, [join(TESTS, 'child.py'), join(TESTS, 'upstream.py'), String(port)]);
    const url = `http://127.0.0.1:${port}`;
    await eventually(() => answers(`${url}/books`));
    return {
      url,
      /** @returns {Promise<{ billed: { tag: string }[], calls: Record<string, number> }>} */
      books: async () => /** @type {any} */ (parseJson(await (await fetch(`${url}/books`)).text())),
      go: () => fetch(`${url}/go`, { method: 'POST' }),
    };
  }

  /** A Redis of its own for LiteLLM's counters. */
  async redis() {
    const redis = await startRedis(mkdtempSync(join(this.folder, 'redis-')), { appendonly: 'no' });
    this.ends.push(redis.stop);
    return redis;
  }

  /**
   * Resolves when LiteLLM's counters have lapsed, a minute after they were last changed.
   * @param {number} port of their Redis
   */
  async lapsed(port) {
    const redis = new Redis({ port, host: '127.0.0.1' });
    try {
      await eventually(async () => (await redis.keys('*spend:*')).length === 0);
    } finally {
      redis.disconnect();
    }
  }

  /**
   * @param {Record<string, unknown>} config
   * @param {Record<string, string>} env
   */
  async proxy(config, env) {
    const port = await freePort();
    const folder = mkdtempSync(join(this.folder, 'proxy-'));
    const file = join(folder, 'config.yaml');
    // JSON is YAML, too.
    writeFileSync(file, JSON.stringify(config));
    const auth = `import sys\nsys.path.insert(0, ${JSON.stringify(TESTS)})\nfrom gateway_auth import user_api_key_auth\n`;
    writeFileSync(join(folder, 'auth.py'), auth);
    const args = ['litellm', '--config', file, '--port', String(port), '--host', '127.0.0.1'];
    const { kill } = this.start(this.python, [join(TESTS, 'child.py'), ...args], {
      LITELLM_LOCAL_MODEL_COST_MAP: 'True',
      LITELLM_TELEMETRY: 'False',
      LITELLM_LOG: 'CRITICAL',
      ...env,
    });
    const url = `http://127.0.0.1:${port}`;
    await eventually(() => answers(`${url}/health/liveliness`));
    return { url, kill };
  }
}

const answers = (/** @type {string} */ url) =>
  fetch(url).then(
    ({ ok }) => ok,
    () => false,
  );
