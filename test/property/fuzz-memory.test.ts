import { connect } from 'node:net';
import { once } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ADMIN_API_KEY, Holdfast } from '../support/holdfast.js';
import { exchange, operationsOf, type Operation } from '../support/openapi-fuzz/index.js';
import type { SpecDocument } from '../support/spec/index.js';

const MIB = 1_048_576;
/** The size of the unique text in each place of a request. */
const MARK_BYTES = 2500;
const REQUESTS = 1200;
/**
 * What code that is compiled meanwhile may occupy. One mark per request would occupy almost twice as much.
 */
const GROWTH_ALLOWED = 1.5 * MIB;

let holdfast: Holdfast;
let port: number;

beforeAll(async () => {
  holdfast = await Holdfast.start();
  port = Number(new URL(holdfast.url).port);
});
afterAll(() => holdfast.stop());

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

async function heapUsed(): Promise<number> {
  // The second collection frees what finalizers have released.
  for (let round = 0; round < 2; round += 1) {
    collectGarbage();
    await new Promise(setImmediate);
  }
  return process.memoryUsage().heapUsed;
}

let count = 0;
function mark(): string {
  count += 1;
  return `${count}-`.padEnd(MARK_BYTES, `${count}x`);
}

/** A request to an operation that differs from every other in path, query, headers, keys and body. */
function strange({ method, template }: Operation): Buffer {
  const path = template.replaceAll(/\{\w+\}/g, () => mark().slice(0, 200));
  const body = JSON.stringify({ idempotency_key: mark(), [mark()]: mark() });
  const head = [
    `${method} ${path}?${mark()}=${mark()} HTTP/1.1`,
    'Host: x',
    'Connection: close',
    'Content-Type: application/json',
  ];
  const keys =
    count % 2 === 0
      ? [`X-Cycles-API-Key: ${mark()}`, `X-Admin-API-Key: ${mark()}`]
      : [`X-Admin-API-Key: ${ADMIN_API_KEY}`];
  const lines = [...head, ...keys, `X-${mark().slice(0, 100)}: ${mark()}`, `Content-Length: ${body.length}`];
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n${body}`);
}

describe('memory', () => {
  test('no part of any request to any operation stays in memory', async () => {
    const document = (await holdfast.call('GET', '/openapi.json')).body as SpecDocument;
    const operations = operationsOf(document).filter(
      ({ template }) => template.startsWith('/v1/') || template.startsWith('/ops/'),
    );
    const sendAll = async (): Promise<void> => {
      for (let sent = 0; sent < REQUESTS; sent += 1) {
        const { status } = await exchange(port, strange(operations[sent % operations.length] as Operation));
        expect(status).toBeLessThan(500);
      }
    };
    await sendAll();
    const before = await heapUsed();
    await sendAll();
    expect((await heapUsed()) - before).toBeLessThan(GROWTH_ALLOWED);
  }, 120_000);

  test('an endless body is cut off at the limit, declared or not', async () => {
    const announced = await exchange(
      port,
      Buffer.from(
        'POST /v1/decide HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 9999999999\r\n\r\n{',
      ),
    );
    expect(announced.status).toBe(413);
    const socket = connect(port, '127.0.0.1');
    let answer = '';
    socket.on('data', (chunk) => (answer += chunk.toString()));
    // The server closes the connection while chunks are still on their way.
    socket.on('error', () => undefined);
    const closed = new Promise((resolve) => socket.once('close', resolve));
    await once(socket, 'connect');
    socket.write(
      'POST /v1/decide HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n',
    );
    const chunk = Buffer.from(`10000\r\n${' '.repeat(0x10000)}\r\n`);
    let taken = 0;
    while (!socket.destroyed && !answer.includes('413') && taken < 64 * MIB) {
      if (!socket.write(chunk)) {
        await Promise.race([once(socket, 'drain').catch(() => undefined), closed]);
      }
      taken += chunk.length;
    }
    socket.destroy();
    await closed;
    expect(answer).toMatch(/^HTTP\/1\.1 413 /);
    expect(taken).toBeLessThan(16 * MIB);
  });
});
