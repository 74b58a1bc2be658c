// One tenant at full tilt: a process of its own with so many connections, each of which sends its next request as soon as the last one is
// answered, whatever the answer, and ignores Retry-After.
import { Agent, request as send } from 'node:http';

/** Sends one request and resolves with its status, or with the error's code. The body is read and dropped. */
function statusOf(agent, port, { method, path, headers = {}, body }) {
  const payload = body === undefined ? undefined : JSON.stringify(body);
  const length =
    payload === undefined
      ? {}
      : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(payload) };
  return new Promise((done) => {
    const sent = send(
      { agent, host: '127.0.0.1', port, method, path, headers: { ...headers, ...length } },
      (response) => {
        response
          .on('error', (error) => done(error.code))
          .on('end', () => done(String(response.statusCode)))
          .resume();
      },
    );
    sent.on('error', (error) => done(error.code)).end(payload);
  });
}

/** `requests` are sent in turn by all connections; `once` sends each of them once. */
async function run({ port, connections, seconds, requests, once = false }) {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const deadline = performance.now() + seconds * 1000;
  const statuses = {};
  let next = 0;
  const worker = async () => {
    while (performance.now() < deadline && (!once || next < requests.length)) {
      const status = await statusOf(agent, port, requests[next++ % requests.length]);
      statuses[status] = (statuses[status] ?? 0) + 1;
    }
  };
  const cpu = process.cpuUsage();
  await Promise.all(Array.from({ length: connections }, worker));
  const { user, system } = process.cpuUsage(cpu);
  agent.destroy();
  return { statuses, cpu_s: (user + system) / 1e6 };
}

process.on('message', (plan) => {
  run(plan).then(
    (result) => process.send({ result }),
    (error) => process.send({ error: error.message }),
  );
});
