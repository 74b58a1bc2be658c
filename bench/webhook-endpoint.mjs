// An endpoint for webhooks. A separate process with a minimal HTTP/1.1 parser, because it shares the machine.
// It records when each event arrived first. Paths that start with /hang get their response after 30 s.
import { createServer } from 'node:net';

const ANSWER = 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n';
const HANG_MS = 30_000;
const EVENT_ID = 'x-cycles-event-id: evt_';
/**
 * An event's id starts with its time in ms, in this many hex digits. Redis and the machine use the same
 * clock.
 */
const MS_DIGITS = 11;

/** @typedef {{ requests: number, first: number, last: number, events: Map<string, number> }} Noted */

/** @type {Map<string, Noted>} */
let paths = new Map();
/**
 * Requests by second since 1970.
 * @type {Map<number, number>}
 */
let seconds = new Map();

/**
 * @param {string} path
 * @param {string} eventId
 */
function note(path, eventId) {
  const at = Date.now();
  let noted = paths.get(path);
  if (noted === undefined) {
    noted = { requests: 0, first: at, last: at, events: new Map() };
    paths.set(path, noted);
  }
  noted.requests += 1;
  const second = Math.floor(at / 1000);
  seconds.set(second, (seconds.get(second) ?? 0) + 1);
  noted.last = at;
  if (!noted.events.has(eventId)) {
    noted.events.set(eventId, at - Number.parseInt(eventId.slice(0, MS_DIGITS), 16));
  }
}

/**
 * The ids of the events of a request, of which a group has them only in its body.
 * @param {string} head
 * @param {string} body
 */
function eventsIn(head, body) {
  const at = head.indexOf(EVENT_ID);
  return at === -1
    ? Array.from(body.matchAll(/"event_id":"evt_([0-9a-f]+)"/g), ([, id = '']) => id)
    : [/^[0-9a-f]*/.exec(head.slice(at + EVENT_ID.length))?.[0] ?? ''];
}

const server = createServer((socket) => {
  let rest = '';
  socket.setNoDelay(true).setEncoding('latin1');
  socket.on('error', () => undefined);
  socket.on('data', (/** @type {string} */ text) => {
    rest += text;
    for (;;) {
      const headEnd = rest.indexOf('\r\n\r\n');
      const lengthAt = rest.indexOf('content-length: ');
      const end = headEnd + 4 + Number.parseInt(rest.slice(lengthAt + 16, lengthAt + 26), 10);
      if (headEnd === -1 || rest.length < end) {
        return;
      }
      const path = rest.slice(5, rest.indexOf(' ', 5));
      for (const id of eventsIn(rest.slice(0, headEnd), rest.slice(headEnd, end))) {
        note(path, id);
      }
      rest = rest.slice(end);
      if (path.startsWith('/hang')) {
        setTimeout(() => socket.write(ANSWER), HANG_MS).unref();
      } else {
        socket.write(ANSWER);
      }
    }
  });
});

server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  process.send?.({ port: typeof address === 'object' && address !== null ? address.port : 0 });
});

/** Returns its record on request, and then starts a new one if told so. `brief` asks for the counts by second alone. */
process.on('message', (/** @type {{ forget: boolean, brief?: boolean }} */ { forget, brief = false }) => {
  if (brief) {
    process.send?.({ seconds: [...seconds] });
    return;
  }
  const noted = [...paths].map(([path, { events, ...rest }]) => ({
    path,
    ...rest,
    delays: [...events.values()],
  }));
  if (forget) {
    paths = new Map();
    seconds = new Map();
  }
  process.send?.({ noted });
});
process.on('disconnect', () => process.exit(0));
