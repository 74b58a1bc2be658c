// What load generators share: keep-alive connections on raw sockets with a minimal HTTP/1.1 parser, and latencies.
import { connect } from 'node:net';
import { once } from 'node:events';

/**
 * @typedef {(body: string) => void} Succeed
 * @typedef {(error: Error) => void} Fail
 */

export class Latencies {
  values = new Float64Array(1 << 20);
  count = 0;

  /** @param {number} ms */
  add(ms) {
    this.values[this.count % this.values.length] = ms;
    this.count += 1;
  }

  summary() {
    const sorted = this.values.slice(0, Math.min(this.count, this.values.length)).sort();
    const at = (/** @type {number} */ share) =>
      sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)] ?? NaN;
    return { requests: this.count, p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1) };
  }
}

/** A keep-alive connection with at most one request in flight. */
export class Connection {
  rest = '';
  /** @type {Succeed | undefined} */
  succeed;
  /** @type {Fail | undefined} */
  fail;

  /** @param {import('node:net').Socket} socket */
  constructor(socket) {
    this.socket = socket.setNoDelay(true).setEncoding('latin1');
    socket.on('data', (/** @type {string} */ text) => this.take(text));
    socket.on('error', (error) => this.fail?.(error));
    socket.on('close', () => this.fail?.(new Error('the service closed a connection')));
  }

  /**
   * `succeed(body)` runs when the response is complete; `fail(error)` on any status but 200.
   * @param {string} text
   * @param {Succeed} succeed
   * @param {Fail} fail
   */
  send(text, succeed, fail) {
    this.succeed = succeed;
    this.fail = fail;
    this.socket.write(text, 'latin1');
  }

  /** @param {string} text */
  take(text) {
    const all = this.rest === '' ? text : this.rest + text;
    const headEnd = all.indexOf('\r\n\r\n');
    const lengthAt = all.indexOf('content-length: ');
    const bodyEnd = headEnd + 4 + Number.parseInt(all.slice(lengthAt + 16, lengthAt + 26), 10);
    if (headEnd === -1 || lengthAt === -1 || all.length < bodyEnd) {
      this.rest = all;
      return;
    }
    this.rest = '';
    if (all.startsWith('200', 9)) {
      this.succeed?.(all.slice(headEnd + 4, bodyEnd));
    } else {
      this.fail?.(new Error(`got ${all.slice(9, 12)} ${all.slice(headEnd + 4, bodyEnd)}`));
    }
  }
}

/**
 * @param {number} port
 * @param {number} connections
 */
export async function open(port, connections) {
  return Promise.all(
    Array.from({ length: connections }, async () => {
      const socket = connect(port, '127.0.0.1');
      await once(socket, 'connect');
      return new Connection(socket);
    }),
  );
}
