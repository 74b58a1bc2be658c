import 'reflect-metadata';
import { once } from 'node:events';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { SERVER_OPTIONS } from '../../src/http/fastify.js';
import { listen, type Listeners } from '../../src/http/listening.js';
import { eventually } from '../support/eventually.js';
import { exchange } from '../support/openapi-fuzz/index.js';
import { ADMIN_KEY, Gate, gates, startProbeApp, type ProbeApp } from './probe-app.js';

let probe: ProbeApp;
let listeners: Listeners;
let ports: [name: string, port: number][];

/** More than BODY_LIMIT_BYTES. */
const OVER_LIMIT = 300_000;

beforeAll(async () => {
  probe = await startProbeApp({ listen: false });
  listeners = await listen(probe.app, { host: '127.0.0.1', port: 0, adminPort: 0 });
  ports = [
    ['the port', listeners.port],
    ['the admin port', listeners.adminPort as number],
  ];
});

afterAll(async () => {
  await listeners.close(0);
  await probe.close();
});

test('CONNECT is refused in the error form on every port, and names its request and trace', async () => {
  const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
  for (const [name, port] of ports) {
    const answer = await exchange(
      port,
      Buffer.from(`CONNECT elsewhere:443 HTTP/1.1\r\nHost: x\r\nX-Cycles-Trace-Id: ${trace}\r\n\r\n`),
    );
    const requestId = answer.headers.get('x-request-id');
    expect({ name, status: answer.status, trace: answer.headers.get('x-cycles-trace-id') }).toEqual({
      name,
      status: 400,
      trace,
    });
    expect(JSON.parse(answer.text)).toEqual({
      error: 'INVALID_REQUEST',
      message: 'CONNECT is not supported',
      request_id: requestId,
      trace_id: trace,
    });
  }
});

test('a client that disconnects before the response to CONNECT only ends its own connection', async () => {
  for (const [, port] of ports) {
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    socket.write('CONNECT elsewhere:443 HTTP/1.1\r\nHost: x\r\n\r\n');
    socket.resetAndDestroy();
    const answer = await exchange(
      port,
      Buffer.from('GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'),
    );
    expect(answer.status).toBe(200);
  }
});

test.each([
  ['CONNECT with a long body', 'CONNECT elsewhere:443 HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n'],
  ['what is not HTTP', 'nonsense\r\n\r\n'],
])(
  '%s leaves no connection behind, even if the client keeps sending and never closes its end',
  async (_what, start) => {
    const server = probe.app.getHttpServer();
    const connections = (): Promise<number> => promisify(server.getConnections.bind(server))();
    const before = await connections();
    const accepted = once(server, 'connection');
    const socket = connect({ port: listeners.port, host: '127.0.0.1', allowHalfOpen: true });
    socket.on('error', () => undefined).resume();
    await once(socket, 'connect');
    socket.write(start + 'x'.repeat(200_000));
    await accepted;
    await eventually('it is gone', async () => (await connections()) === before);
    socket.destroy();
  },
);

test('an address outlives its connection, so that audit rows of its requests have one', async () => {
  const accepted = once(probe.app.getHttpServer(), 'connection');
  const socket = connect(listeners.port, '127.0.0.1');
  const [accepting] = (await accepted) as [Socket];
  const closed = once(accepting, 'close');
  socket.destroy();
  await closed;
  expect(accepting.remoteAddress).toBe('127.0.0.1');
});

test('an unknown expectation is ignored, and the request gets its usual response', async () => {
  for (const [name, port] of ports) {
    const answer = await exchange(
      port,
      Buffer.from('GET /probe/trace HTTP/1.1\r\nHost: x\r\nExpect: nothing\r\nConnection: close\r\n\r\n'),
    );
    expect({ name, status: answer.status, requestId: answer.headers.get('x-request-id') }).toEqual({
      name,
      status: 200,
      requestId: expect.stringMatching(/^req_/),
    });
  }
});

test('a request that was received completely gets its own response, whatever garbage follows it', async () => {
  const gate = new Gate();
  gates.set('nonsense', gate);
  const answer = exchange(
    listeners.port,
    Buffer.from('GET /probe/gate/nonsense HTTP/1.1\r\nHost: x\r\n\r\n{}\r\n'),
  );
  await gate.entered;
  gate.open();
  expect(await answer).toMatchObject({ status: 200, text: '{"passed":"nonsense"}' });
});

test.each([
  ['at once', 0],
  ['after the response', 1],
])(
  'a request that got its response before its body gets no second one if the body is malformed %s',
  async (_when, after) => {
    for (const [, port] of ports) {
      for (const connection of ['close', 'keep-alive']) {
        const socket = connect(port, '127.0.0.1');
        const received: Buffer[] = [];
        socket.on('data', (chunk: Buffer) => received.push(chunk));
        const closed = once(socket, 'close');
        const head = `POST /nowhere HTTP/1.1\r\nHost: x\r\nConnection: ${connection}\r\nTransfer-Encoding: chunked\r\n\r\n`;
        socket.write(after === 0 ? `${head}zz\r\n` : head);
        if (after === 1) {
          await once(socket, 'data');
          socket.write('zz\r\n');
        }
        await closed;
        const answers = Buffer.concat(received)
          .toString()
          .match(/HTTP\/1\.1 \d+/g);
        expect({ connection, answers }).toEqual({ connection, answers: ['HTTP/1.1 404'] });
      }
    }
  },
);

test('a malformed body that a request waits for gets 400, after the responses to earlier requests', async () => {
  const gate = new Gate();
  gates.set('earlier', gate);
  const socket = connect(listeners.port, '127.0.0.1');
  const received: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => received.push(chunk));
  const closed = once(socket, 'close');
  socket.write(
    'GET /probe/gate/earlier HTTP/1.1\r\nHost: x\r\n\r\n' +
      'POST /probe/echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
  );
  await gate.entered;
  gate.open();
  await closed;
  expect(
    Buffer.concat(received)
      .toString()
      .match(/HTTP\/1\.1 \d+/g),
  ).toEqual(['HTTP/1.1 200', 'HTTP/1.1 400']);
});

test.each([
  ['that is not JSON', `Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{x`],
  ['of another type', 'Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}'],
  [
    'over the limit',
    `Content-Type: application/json\r\nContent-Length: ${OVER_LIMIT}\r\n\r\n${'x'.repeat(OVER_LIMIT)}`,
  ],
  [
    'over the limit, in chunks',
    `Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n` +
      `${OVER_LIMIT.toString(16)}\r\n${'x'.repeat(OVER_LIMIT)}\r\n0\r\n\r\n`,
  ],
])('a request behind one with a body %s is answered on the same connection', async (_what, refused) => {
  for (const [name, port] of ports) {
    const answer = await exchange(
      port,
      Buffer.from(
        `POST /probe/echo HTTP/1.1\r\nHost: x\r\n${refused}` +
          'DELETE /probe/items/next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
      ),
    );
    const { status, headers, surplus } = answer;
    expect({ name, refused: status >= 400, connection: headers.get('connection'), surplus }).toEqual({
      name,
      refused: true,
      connection: 'keep-alive',
      surplus: expect.stringMatching(/^HTTP\/1\.1 200 OK\r\n[^]*\r\n\r\n\{"id":"next"\}$/),
    });
  }
});

test.each(['404', '400'])(
  'a refusal with %s closes the connection if the client wants that',
  async (status) => {
    const path = status === '404' ? '/nowhere' : '/probe/echo';
    for (const [name, port] of ports) {
      const { headers, ...answer } = await exchange(
        port,
        Buffer.from(
          `POST ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}`,
        ),
      );
      expect({ name, status: String(answer.status), connection: headers.get('connection') }).toEqual({
        name,
        status,
        connection: 'close',
      });
    }
  },
);

test('a client that still sends what is not HTTP gets the answer to what it sent before, and only one refusal', async () => {
  const gate = new Gate();
  gates.set('pieces', gate);
  const server = probe.app.getHttpServer();
  const warnings: Error[] = [];
  const warn = (warning: Error): void => void warnings.push(warning);
  process.on('warning', warn);
  const socket = connect(listeners.port, '127.0.0.1');
  const received: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => received.push(chunk));
  const closed = once(socket, 'close');
  socket.write('GET /probe/gate/pieces HTTP/1.1\r\nHost: x\r\n\r\n');
  await gate.entered;
  for (let piece = 0; piece < 12; piece += 1) {
    const met = once(server, 'clientError');
    socket.write('nonsense\r\n');
    await met;
  }
  gate.open();
  await closed;
  process.off('warning', warn);
  expect(
    Buffer.concat(received)
      .toString()
      .match(/HTTP\/1\.1 \d+/g),
  ).toEqual(['HTTP/1.1 200', 'HTTP/1.1 400']);
  expect(warnings).toEqual([]);
});

test('a client that sends more headers than it may, bit by bit, can read why it is refused', async () => {
  const server = probe.app.getHttpServer();
  const accepted = once(server, 'connection');
  const socket = connect(listeners.port, '127.0.0.1');
  const received: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => received.push(chunk));
  const ended = once(socket, 'end');
  const [accepting] = (await accepted) as [Socket];
  socket.write('GET /health/live HTTP/1.1\r\nHost: x\r\nX-Long: ');
  const met = once(server, 'clientError');
  socket.write('x'.repeat(20_000));
  await met;
  const again = once(server, 'clientError');
  socket.write('x'.repeat(20_000));
  await again;
  expect(accepting.destroyed).toBe(false);
  await ended;
  expect(Buffer.concat(received).toString()).toMatch(/^HTTP\/1\.1 431 /);
});

test('CONNECT is refused after what was sent before it has been answered', async () => {
  for (const [name, port] of ports) {
    const names = [`${port}-one`, `${port}-two`];
    const [one = new Gate(), two = new Gate()] = names.map((gate) => {
      gates.set(gate, new Gate());
      return gates.get(gate);
    });
    const answer = exchange(
      port,
      Buffer.from(
        names.map((gate) => `GET /probe/gate/${gate} HTTP/1.1\r\nHost: x\r\n\r\n`).join('') +
          'CONNECT elsewhere:443 HTTP/1.1\r\nHost: x\r\n\r\n',
      ),
    );
    await Promise.all([one.entered, two.entered]);
    two.open();
    one.open();
    const { status, surplus } = await answer;
    expect({ name, status, next: surplus.match(/HTTP\/1\.1 \d+/g) }).toEqual({
      name,
      status: 200,
      next: ['HTTP/1.1 200', 'HTTP/1.1 400'],
    });
  }
});

test('a request may take 30 s to arrive, with its body, on every port', () => {
  for (const { headersTimeout, requestTimeout } of [
    probe.app.getHttpServer(),
    // The one of the admin port is made like this.
    createServer(SERVER_OPTIONS),
  ]) {
    // Node applies the longer limit to the whole request, whichever it is.
    expect(Math.max(headersTimeout, requestTimeout)).toBe(30_000);
  }
});

/** The server of a port: the one of the admin port is known only to who listens. */
async function serverOf(port: number): Promise<Server> {
  const channel = 'http.server.request.start';
  let found: Server | undefined;
  const note = (message: unknown): void => {
    const { server } = message as { readonly server: Server };
    found = (server.address() as AddressInfo).port === port ? server : found;
  };
  subscribe(channel, note);
  await exchange(port, Buffer.from('GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'));
  unsubscribe(channel, note);
  return found as Server;
}

test.each([
  ['nothing', ''],
  ['half of its headers', 'POST /probe/echo HTTP/1.1\r\nHost: x\r\n'],
  [
    'half of its body',
    'POST /probe/echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"key"',
  ],
])(
  'a client that has sent %s when its time is over is cut within a second, on every port',
  async (_what, sent) => {
    for (const [name, port] of ports) {
      const server = await serverOf(port);
      const { headersTimeout, requestTimeout } = server;
      Object.assign(server, { headersTimeout: 1, requestTimeout: 1 });
      try {
        const socket = connect(port, '127.0.0.1');
        const received: Buffer[] = [];
        socket.on('data', (chunk: Buffer) => received.push(chunk));
        socket.write(sent);
        // Node's own check every 30 s would come after the time limit of the test.
        await once(socket, 'end');
        expect({ name, answer: Buffer.concat(received).toString().slice(0, 12) }).toEqual({
          name,
          answer: 'HTTP/1.1 408',
        });
      } finally {
        Object.assign(server, { headersTimeout, requestTimeout });
      }
    }
  },
);

test('a client that disconnects while it sends its body is not an unexpected failure', async () => {
  const socket = connect(listeners.port, '127.0.0.1');
  await once(socket, 'connect');
  const arrived = once(probe.app.getHttpServer(), 'request');
  socket.write(
    'POST /probe/echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"key"',
  );
  const [request] = (await arrived) as [IncomingMessage];
  socket.destroy();
  await eventually('the server has dropped the request', () => request.destroyed);
  const metrics = await exchange(
    listeners.adminPort as number,
    Buffer.from(
      `GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Admin-API-Key: ${ADMIN_KEY}\r\n\r\n`,
    ),
  );
  expect(metrics.text).toMatch(/^holdfast_unexpected_errors_total\{[^}]*\} 0$/m);
  expect(probe.logs.filter(({ msg }) => msg === 'a request failed unexpectedly')).toEqual([]);
});
