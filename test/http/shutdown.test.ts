import 'reflect-metadata';
import { connect, createServer } from 'node:net';
import { once } from 'node:events';
import { Agent, request } from 'undici';
import { afterEach, expect, test } from '@jest/globals';
import { listen, ListenError } from '../../src/http/listening.js';
import { ShutdownState } from '../../src/telemetry/health.js';
import { eventually } from '../support/eventually.js';
import { Gate, gates, randomName, startProbeApp, type ProbeApp } from './probe-app.js';

const GRACE_MS = 8000;
const agents: Agent[] = [];

/** Keeps connections alive, one per server, as clients do. */
function agent(): Agent {
  const made = new Agent({ keepAliveTimeout: 60_000, connections: 1 });
  agents.push(made);
  return made;
}

afterEach(async () => {
  await Promise.all(agents.splice(0).map((one) => one.destroy()));
});

function heldRequest(
  port: number,
  dispatcher: Agent,
): { gate: Gate; answer: Promise<{ status: number; body: unknown }> } {
  const name = randomName();
  const gate = new Gate();
  gates.set(name, gate);
  const answer = request(`http://127.0.0.1:${port}/probe/gate/${name}`, { dispatcher }).then(
    async (response) => ({
      status: response.statusCode,
      body: await response.body.json(),
    }),
  );
  return { gate, answer };
}

async function accepts(port: number): Promise<boolean> {
  try {
    const response = await request(`http://127.0.0.1:${port}/health/live`, { reset: true });
    await response.body.dump();
    return true;
  } catch {
    return false;
  }
}

test('a shutdown completes requests in flight on both ports and accepts no new ones', async () => {
  const probe = await startProbeApp({ listen: false });
  const listeners = await listen(probe.app, { host: '127.0.0.1', port: 0, adminPort: 0 });
  const held = [heldRequest(listeners.port, agent()), heldRequest(listeners.adminPort as number, agent())];
  await Promise.all(held.map(({ gate }) => gate.entered));

  probe.app.get(ShutdownState).beginShutdown();
  const closed = listeners.close(GRACE_MS);
  await eventually(
    'neither port accepts',
    async () => !(await accepts(listeners.port)) && !(await accepts(listeners.adminPort as number)),
  );

  for (const { gate } of held) {
    gate.open();
  }
  for (const { answer } of held) {
    expect((await answer).status).toBe(200);
  }
  await closed;
  await probe.close();
});

test('a request that arrives over a kept-alive connection while the server closes gets its response, with the request to close the connection', async () => {
  const probe = await startProbeApp({ listen: false });
  const listeners = await listen(probe.app, { host: '127.0.0.1', port: 0, adminPort: 0 });
  const kept = [listeners.port, listeners.adminPort as number].map((port) => ({ port, dispatcher: agent() }));
  await Promise.all(
    kept.map(async ({ port, dispatcher }) =>
      (await request(`http://127.0.0.1:${port}/health/live`, { dispatcher })).body.dump(),
    ),
  );
  const closed = listeners.close(GRACE_MS);
  // Immediately, because idle connections are closed soon.
  const responses = await Promise.all(
    kept.map(({ port, dispatcher }) => request(`http://127.0.0.1:${port}/probe/items/1`, { dispatcher })),
  );
  for (const response of responses) {
    expect(response.statusCode).toBe(200);
    expect(response.headers.connection).toBe('close');
    await response.body.dump();
  }
  for (const { port } of kept) {
    expect(await accepts(port)).toBe(false);
  }
  await closed;
  await probe.close();
});

test.each([
  ['is answered', '200', 'GET /probe/items/1 HTTP/1.1\r\nHost: x\r\n\r\n'],
  ['has no operation', '404', 'GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n'],
  ['has a refused body', '400', 'POST /probe/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{x'],
])(
  'what is pipelined behind a request that %s while the server closes is not executed, as it cannot be answered',
  async (_what, status, first) => {
    const probe = await startProbeApp({ listen: false });
    const listeners = await listen(probe.app, { host: '127.0.0.1', port: 0, adminPort: 0 });
    const sockets = await Promise.all(
      [listeners.port, listeners.adminPort as number].map(async (port) => {
        const socket = connect(port, '127.0.0.1');
        const received: Buffer[] = [];
        socket.on('data', (chunk: Buffer) => received.push(chunk));
        socket.write('GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n');
        await once(socket, 'data');
        received.length = 0;
        return { socket, received };
      }),
    );
    const closed = listeners.close(GRACE_MS);
    const outcomes = await Promise.all(
      sockets.map(async ({ socket, received }) => {
        const gate = new Gate();
        const name = randomName();
        gates.set(name, gate);
        gate.open();
        let isExecuted = false;
        void gate.entered.then(() => (isExecuted = true));
        const ended = once(socket, 'close');
        socket.write(first + `GET /probe/gate/${name} HTTP/1.1\r\nHost: x\r\n\r\n`.repeat(2));
        await ended;
        const text = Buffer.concat(received).toString();
        return {
          answers: [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, answer]) => answer),
          saysSo: /^connection: close\r$/im.test(text),
          isExecuted,
        };
      }),
    );
    await closed;
    await probe.close();
    expect(outcomes).toEqual([
      { answers: [status], saysSo: true, isExecuted: false },
      { answers: [status], saysSo: true, isExecuted: false },
    ]);
  },
);

test('kept-alive connections without a request do not hold up a shutdown', async () => {
  const probe = await startProbeApp({ listen: false });
  const listeners = await listen(probe.app, { host: '127.0.0.1', port: 0 });
  const dispatcher = agent();
  await (await request(`http://127.0.0.1:${listeners.port}/health/live`, { dispatcher })).body.dump();
  // Longer than the test may take.
  await listeners.close(3_600_000);
  await probe.close();
});

test('a request that never ends is cut off after the grace period', async () => {
  const probe = await startProbeApp({ listen: false });
  const listeners = await listen(probe.app, { host: '127.0.0.1', port: 0 });
  const { gate, answer } = heldRequest(listeners.port, agent());
  const outcome = answer.then(
    () => 'answered',
    () => 'cut',
  );
  await gate.entered;
  await listeners.close(50);
  expect(await outcome).toBe('cut');
  gate.open();
  await probe.close();
});

async function closing(probe: ProbeApp, task: Promise<unknown>): Promise<void> {
  try {
    await task;
  } finally {
    await probe.close();
  }
}

test.each([
  ['PORT', (port: number) => ({ host: '127.0.0.1', port })],
  ['ADMIN_PORT', (port: number) => ({ host: '127.0.0.1', port: 0, adminPort: port })],
])('a taken %s is reported in one line that names it', async (variable, ports) => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as { port: number };
  const probe = await startProbeApp({ listen: false });
  const expected = `${variable} ${port} on 127.0.0.1 is already in use; set ${variable} to a free port`;
  await closing(probe, expect(listen(probe.app, ports(port))).rejects.toEqual(new ListenError(expected)));
  expect(probe.logs.filter((line) => JSON.stringify(line).includes('EADDRINUSE'))).toEqual([]);
  taken.close();
  await once(taken, 'close');
});

test('a host that this machine does not have is reported in one line', async () => {
  const probe = await startProbeApp({ listen: false });
  await closing(
    probe,
    expect(listen(probe.app, { host: '192.0.2.1', port: 0 })).rejects.toThrow(
      /HOST 192\.0\.2\.1 is not an address of this machine/,
    ),
  );
});

test('both ports are the same application', async () => {
  const probe = await startProbeApp({ listen: false });
  const listeners = await listen(probe.app, { host: '127.0.0.1', port: 0, adminPort: 0 });
  for (const port of [listeners.port, listeners.adminPort as number]) {
    const response = await request(`http://127.0.0.1:${port}/probe/items/1`, { dispatcher: agent() });
    expect(response.statusCode).toBe(200);
    expect(await response.body.json()).toMatchObject({ id: '1' });
  }
  await listeners.close(GRACE_MS);
  await probe.close();
});
