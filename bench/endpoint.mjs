// Starts the webhook endpoint and queries what it received.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/**
 * What a path received: the number of requests, the times of the first and the last one in ms since 1970, and for each event the delay
 * in ms from its time to its first request.
 * @typedef {{ path: string, requests: number, first: number, last: number, delays: number[] }} Inbox
 */

/** @typedef {Awaited<ReturnType<typeof startEndpoint>>} Endpoint */

export async function startEndpoint() {
  const child = fork(fileURLToPath(new URL('./webhook-endpoint.mjs', import.meta.url)));
  /** @returns {Promise<unknown>} */
  const message = () => new Promise((done) => child.once('message', done));
  const { port } = /** @type {{ port: number }} */ (await message());
  return {
    url: `http://127.0.0.1:${port}`,
    pid: child.pid,
    /**
     * What the paths that respond immediately received, and all delays.
     * @param {{ forget: boolean }} how whether the endpoint begins anew afterwards
     */
    async received(how) {
      child.send(how);
      const { noted } = /** @type {{ noted: Inbox[] }} */ (await message());
      const inboxes = noted.filter(({ path }) => !path.startsWith('/hang'));
      return { inboxes, delays: inboxes.flatMap(({ delays }) => delays) };
    },
    /** How many requests each second since 1970 brought. Costs little, however many there were. */
    async bySecond() {
      child.send({ forget: false, brief: true });
      const { seconds } = /** @type {{ seconds: [number, number][] }} */ (await message());
      return new Map(seconds);
    },
    stop: () => child.disconnect(),
  };
}
