import {
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { Duplex } from 'node:stream';
import { type ErrorAnswer, errorBody } from './errors/error-answer.js';
import { newRequestId, REQUEST_ID_HEADER, TRACE_ID_HEADER, traceFrom } from './tracing.js';

/** On every response. Browsers must not interpret stored text, such as metadata, as a page or a script. */
export const NO_SNIFFING = ['X-Content-Type-Options', 'nosniff'] as const;

const RAW_ANSWERS: Readonly<Record<string, readonly [status: number, message: string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'the request headers are larger than 16384 bytes, the most that is allowed'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'the request did not arrive in time'],
};

/** What this server still owes a connection. */
interface Debt {
  /** Responses that are not sent yet, in the order of their requests. Only pipelining makes more than one. */
  readonly responses: ServerResponse[];
  /** The last request that got its response before its body had arrived. */
  answeredEarly?: IncomingMessage;
}

const debts = new WeakMap<Duplex, Debt>();

function noteRequest(request: IncomingMessage, response: ServerResponse): void {
  let debt = debts.get(request.socket);
  if (debt === undefined) {
    debt = { responses: [] };
    debts.set(request.socket, debt);
  }
  const { responses } = debt;
  responses.push(response);
  response.once('finish', () => {
    responses.shift();
    if (!request.complete) {
      debt.answeredEarly = request;
    }
  });
}

/** Sockets on which something was not HTTP. Node reports every further piece that it receives on them, too. */
const broken = new WeakSet<Duplex>();

/** Responds to what is not a valid HTTP request. There is no Fastify request then, only the socket. */
export function answerRaw(error: Error & { code?: string }, socket: Duplex): void {
  if (!broken.has(socket)) {
    broken.add(socket);
    answerBroken(error, socket);
  }
}

function answerBroken(error: Error & { code?: string }, socket: Duplex): void {
  const debt = debts.get(socket);
  const pending = debt?.responses[0];
  if (pending?.req.complete === true || pending?.headersSent === true) {
    // The error concerns what follows a complete request, or the rest of a request that is refused without its body.
    pending.once('finish', () => answerBroken(error, socket));
    return;
  }
  if (error.code === 'ECONNRESET' || socket.destroyed || !socket.writable) {
    socket.destroy();
    return;
  }
  if (pending === undefined && debt?.answeredEarly?.complete === false) {
    // The request has its response. A client could take a second one for that of its next request.
    endRaw(socket);
    return;
  }
  const [status, message] = RAW_ANSWERS[error.code ?? ''] ?? [400, 'the request is not valid HTTP'];
  endRaw(socket, rawAnswer({ status, code: 'INVALID_REQUEST', message }, {}));
}

function rawAnswer(answer: ErrorAnswer, headers: IncomingHttpHeaders): string {
  const { status } = answer;
  const trace = traceFrom(headers, newRequestId());
  const body = errorBody(answer, trace);
  return (
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Error'}\r\n` +
    `Content-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n` +
    `${NO_SNIFFING.join(': ')}\r\n${REQUEST_ID_HEADER}: ${trace.requestId}\r\n${TRACE_ID_HEADER}: ${trace.traceId}\r\n\r\n${body}`
  );
}

/** Reads on after the answer, because closing a connection with unread data could reset it before the client has the answer. */
function endRaw(socket: Duplex, answer = ''): void {
  socket.end(answer);
  socket.resume();
  setTimeout(() => socket.destroy(), RAW_LINGER_MS).unref();
}

/** How long a client has to close a connection after such an answer. Node does not limit it any more. */
const RAW_LINGER_MS = 1000;

const NO_TUNNELS: ErrorAnswer = {
  status: 400,
  code: 'INVALID_REQUEST',
  message: 'CONNECT is not supported',
};

/** After the responses to earlier requests, because a client would take it for the first of them. */
function refuseTunnel(headers: IncomingHttpHeaders, socket: Duplex): void {
  const pending = debts.get(socket)?.responses[0];
  if (pending !== undefined) {
    pending.once('finish', () => refuseTunnel(headers, socket));
  } else if (socket.writable) {
    endRaw(socket, rawAnswer(NO_TUNNELS, headers));
  }
}

/** Handles requests for which Node would close the connection, or send a body that is not the protocol's. */
export function answerUncommon(server: Server): void {
  // Node keeps an address that was read once, which is not documented (tried: 20, 22, 24). Later, the connection may be closed, and audit
  // rows of its requests would have none. If Node changes, "an address outlives its connection" in uncommon-requests.test.ts fails.
  server.on('connection', ({ remoteAddress }) => remoteAddress);
  // Before the listener of Fastify, so that no response can be finished earlier.
  server.prependListener('request', noteRequest);
  server.on('connect', ({ headers }, socket) => {
    // Node no longer handles errors of this socket, such as a disconnected client.
    socket.on('error', () => socket.destroy());
    // It notices them only while it reads.
    socket.resume();
    refuseTunnel(headers, socket);
  });
  // Unknown expectations may be ignored (RFC 9110, section 10.1.1).
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
}
