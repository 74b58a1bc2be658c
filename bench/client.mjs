// A client of the service that shares its machine, so it does no more than it must: no cookies, no redirects, no decoding.
import { Pool } from 'undici';

export class Client {
  isClosed = false;

  /**
   * @param {number} port
   * @param {{ connections: number, headers: Readonly<Record<string, string>> }} options
   */
  constructor(port, { connections, headers }) {
    this.pool = new Pool(`http://127.0.0.1:${port}`, { connections, headersTimeout: 0, bodyTimeout: 0 });
    this.headers = { 'content-type': 'application/json', ...headers };
  }

  /**
   * Waits for a free connection if there is none.
   * @param {'GET' | 'POST' | 'PUT' | 'PATCH'} method
   * @param {string} path
   * @param {string | null} [body]
   * @param {Readonly<Record<string, string>>} [headers] beside those of the client
   * @returns {Promise<{ status: number, text: string }>}
   */
  ask(method, path, body = null, headers = {}) {
    return new Promise((done, fail) => {
      const answer = { status: 0, text: '' };
      this.pool.dispatch(
        { method, path, body, headers: { ...this.headers, ...headers } },
        {
          onRequestStart: () => undefined,
          onResponseStart: (_, status) => {
            answer.status = status;
          },
          onResponseData: (_, chunk) => {
            answer.text += chunk.toString('latin1');
          },
          onResponseEnd: () => done(answer),
          onResponseError: (_, error) => fail(error),
        },
      );
    });
  }

  /**
   * @param {string} path
   * @param {object} body
   * @returns {Promise<{ status: number, text: string }>}
   */
  post(path, body) {
    return this.ask('POST', path, JSON.stringify(body));
  }

  close() {
    this.isClosed = true;
    return this.pool.destroy();
  }
}

/**
 * Works through the items, so many at a time.
 * @template Item
 * @param {readonly Item[]} items
 * @param {number} atOnce
 * @param {(item: Item) => Promise<unknown>} work
 */
export async function inTurn(items, atOnce, work) {
  const left = items.values();
  const worker = async () => {
    for (const item of left) {
      await work(item);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}
