// A tenant at full load: a separate process with a fixed number of connections. Each sends its next request
// as soon as it has a response, whatever that is, and ignores Retry-After.
import { Agent, request as send } from 'node:http';
import { setPriority } from 'node:os';
import { answerPlans } from './load.mjs';

// In reality this would be another machine. Here the service must not wait for a processor because the attack
// uses it.
const LOW_PRIORITY = 10;
setPriority(LOW_PRIORITY);

/**
 * Sends one request and resolves with its status, or with the error's code. The body is read and dropped.
 * @param {Agent} agent
 * @param {number} port
 * @param {import('./types.ts').AttackRequest} request
 * @returns {Promise<string>}
 */
function statusOf(agent, port, { method, path, headers = {}, body }) {
  const payload = body === undefined ? undefined : JSON.stringify(body);
  const length =
    payload === undefined
      ? {}
      : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(payload) };
  return new Promise((done) => {
    const fail = (/** @type {NodeJS.ErrnoException} */ error) => done(error.code ?? error.message);
    const sent = send(
      { agent, host: '127.0.0.1', port, method, path, headers: { ...headers, ...length } },
      (response) => {
        response
          .on('error', fail)
          .on('end', () => done(String(response.statusCode)))
          .resume();
      },
    );
    sent.on('error', fail).end(payload);
  });
}

/** @param {import('./types.ts').AttackPlan} plan */
async function run({ port, connections, seconds, requests, once = false }) {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const deadline = performance.now() + seconds * 1000;
  /** @type {Record<string, number>} */
  const statuses = {};
  let next = 0;
  const worker = async () => {
    while (performance.now() < deadline && (!once || next < requests.length)) {
      const request = requests[next++ % requests.length];
      if (request === undefined) {
        throw new Error('an attack without requests');
      }
      const status = await statusOf(agent, port, request);
      statuses[status] = (statuses[status] ?? 0) + 1;
    }
  };
  const cpu = process.cpuUsage();
  await Promise.all(Array.from({ length: connections }, worker));
  const { user, system } = process.cpuUsage(cpu);
  agent.destroy();
  return { statuses, cpu_s: (user + system) / 1e6 };
}

answerPlans(run);
