// Starts the webhook endpoint and queries what it received.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/**
 * What a path received: the number of requests, the times of the first and the last one in ms since 1970, and for each event the delay
 * in ms from its time to its first request.
 * @typedef {{ path: string, requests: number, first: number, last: number, delays: number[] }} Inbox
 */

/**
 * @param {import('node:child_process').ChildProcess} child
 * @returns {Promise<unknown>} its next message
 */
function messageOf(child) {
  return new Promise((done) => child.once('message', done));
}

export class Endpoint {
  /**
   * @param {import('node:child_process').ChildProcess} child
   * @param {number} port
   */
  constructor(child, port) {
    this.child = child;
    this.url = `http://127.0.0.1:${port}`;
  }

  static async start() {
    const child = fork(fileURLToPath(new URL('./webhook-endpoint.mjs', import.meta.url)));
    const { port } = /** @type {{ port: number }} */ (await messageOf(child));
    return new Endpoint(child, port);
  }

  get pid() {
    return this.child.pid;
  }

  /**
   * What the paths that respond immediately received, and all delays.
   * @param {{ forget: boolean }} how whether the endpoint begins anew afterwards
   */
  async received(how) {
    this.child.send(how);
    const { noted } = /** @type {{ noted: Inbox[] }} */ (await messageOf(this.child));
    const inboxes = noted.filter(({ path }) => !path.startsWith('/hang'));
    return { inboxes, delays: inboxes.flatMap(({ delays }) => delays) };
  }

  /**
   * How many requests each second since 1970 brought. Costs little, however many there were.
   * @returns {Promise<Map<number, number>>}
   */
  async bySecond() {
    this.child.send({ forget: false, brief: true });
    const { seconds } = /** @type {{ seconds: [number, number][] }} */ (await messageOf(this.child));
    return new Map(seconds);
  }

  stop() {
    this.child.disconnect();
  }
}
