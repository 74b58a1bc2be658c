import {
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import { isIPv6 } from 'node:net';
import type { Duplex } from 'node:stream';
import cors from '@fastify/cors';
import {
  fastify,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify';
import type { HoldfastConfig } from '../config/index.js';
import { Refusal } from '../ledger/index.js';
import type { Logger } from '../telemetry/index.js';
import { parseBody, stringifyJson } from '../wire/index.js';
import { answerTo, type ErrorAnswer, errorBody, noRoute, pathOf, sendError } from './errors/error-answer.js';
import { installRouteTable, type RouteTable } from './route-table.js';
import {
  installTracing,
  newRequestId,
  REQUEST_ID_HEADER,
  startTrace,
  TRACE_ID_HEADER,
  traceFrom,
} from './tracing.js';

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];
/** What clients of the protocol send, beside what a browser lets every script send. */
const REQUEST_HEADERS = [
  'Authorization',
  'Content-Type',
  'traceparent',
  'tracestate',
  'X-Admin-API-Key',
  'X-Cycles-API-Key',
  TRACE_ID_HEADER,
  'X-Idempotency-Key',
  REQUEST_ID_HEADER,
];
/** What answers carry for clients, beside what a browser shows to every script. */
const ANSWER_HEADERS = [
  'Allow',
  'Content-Disposition',
  'Retry-After',
  'X-Cycles-Cascade-Status',
  'X-Cycles-Tenant',
  TRACE_ID_HEADER,
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
  REQUEST_ID_HEADER,
];
/** A browser asks again after this time, or sooner by a rule of its own. */
const PREFLIGHT_LIFE_S = 3600;

/**
 * Lets scripts of these origins use the API from a browser. Keys are sent in headers by whoever has them, so no cookies or other
 * credentials of the browser are let in. A request of another origin, or of none, is answered as without this. Refusals that later
 * hooks give are shown to the scripts too.
 */
export async function installCors(fastify: FastifyInstance, origins: readonly string[]): Promise<void> {
  await fastify.register(cors, {
    origin: (origin, decide) =>
      decide(null, origin !== undefined && origins.includes(origin) ? origin : false),
    methods: METHODS,
    allowedHeaders: REQUEST_HEADERS,
    exposedHeaders: ANSWER_HEADERS,
    maxAge: PREFLIGHT_LIFE_S,
    // Strict, it would refuse an OPTIONS that is no preflight outside the protocol's error form.
    strictPreflight: false,
  });
}

/** `uri-host [ ":" port ]` of RFC 9110, section 7.2, whose host may be empty. */
const HOST =
  /^(?:\[([0-9A-Fa-f:.]+)\]|\[v[0-9A-Fa-f]+\.[\w.~!$&'()*+,;=:-]+\]|(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::\d*)?$/;

/**
 * What is wrong with a request's Host header by RFC 9112, section 3.2, or undefined. Two of them let a proxy and this server see
 * different hosts. Node keeps the first one only, so the header lines themselves are looked at.
 */
export function hostProblem({ httpVersion, rawHeaders }: IncomingMessage): string | undefined {
  let host: string | undefined;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? '';
    if (name.length === 4 && name.toLowerCase() === 'host') {
      if (host !== undefined) {
        return 'the request has more than one Host header; send one';
      }
      host = rawHeaders[index + 1];
    }
  }
  if (host === undefined) {
    return httpVersion === '1.1' ? 'an HTTP/1.1 request needs a Host header' : undefined;
  }
  const parts = HOST.exec(host);
  const isValid = parts !== null && (parts[1] === undefined || isIPv6(parts[1]));
  return isValid ? undefined : 'the Host header is not a valid host, with or without a port';
}

/** Longer than the idle timeout of common load balancers (60 s), so that they, not we, close an idle connection. */
const KEEP_ALIVE_TIMEOUT_MS = 72_000;
/** A client that takes longer to send its request is cut off; the answer may take as long as it needs. */
const REQUEST_TIMEOUT_MS = 30_000;
/** Reservation ids have at most 128 characters, tenant ids 64; scopes never stand in a path. */
const MAX_PARAM_LENGTH = 256;

export const SERVER_OPTIONS = { requireHostHeader: false } as const;

type AnswerListener = (request: FastifyRequest, reply: FastifyReply) => void;

export interface HttpServer {
  readonly fastify: FastifyInstance;
  readonly routes: RouteTable;
  /** Calls the listener with each answer that is given before a route was looked for; no hook runs for these. */
  readonly onRouterRefusal: (listener: AnswerListener) => void;
}

/** Builds the Fastify instance with everything that must be in place before Nest adds the routes. */
export async function createFastify(
  logger: Logger,
  {
    bodyLimitBytes,
    trustProxy,
    corsOrigins,
  }: Pick<HoldfastConfig, 'bodyLimitBytes' | 'trustProxy' | 'corsOrigins'>,
): Promise<HttpServer> {
  const routes: { table?: RouteTable; refused?: AnswerListener } = {};
  const instance = fastify({
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    // A child logger a request costs more than tracing and metrics together; lines name the request id themselves.
    childLoggerFactory: (parent) => parent,
    genReqId: newRequestId,
    requestIdHeader: false,
    bodyLimit: bodyLimitBytes,
    trustProxy: trustProxy === undefined ? false : [...trustProxy],
    // Node would refuse a request without Host by itself, outside the protocol's error form.
    http: SERVER_OPTIONS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    // A request that arrives on a kept connection during shutdown is still answered as usual.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    routerOptions: { maxParamLength: MAX_PARAM_LENGTH },
    frameworkErrors: (error, request, reply) => {
      startTrace(request, reply);
      routes.refused?.(request, reply);
      reply.header(...NO_SNIFFING);
      sendError(reply, answerTo(error, request, routes.table as RouteTable), request.trace);
    },
    clientErrorHandler: (error, socket) => {
      answerRaw(error, socket);
    },
  }) as unknown as FastifyInstance;
  answerUncommon(instance.server);
  installTracing(instance);
  forbidSniffing(instance);
  if (corsOrigins !== undefined) {
    await installCors(instance, corsOrigins);
  }
  const table = installRouteTable(instance);
  routes.table = table;
  refuseEarly(instance, table);
  installJson(instance);
  return {
    fastify: instance,
    routes: table,
    onRouterRefusal: (listener) => {
      routes.refused = listener;
    },
  };
}

/** On every answer: no browser may take a text of somebody else's, such as metadata, for a page or a script. */
const NO_SNIFFING = ['X-Content-Type-Options', 'nosniff'] as const;

function forbidSniffing(instance: FastifyInstance): void {
  instance.addHook('onRequest', (_request, reply, done) => {
    reply.header(...NO_SNIFFING);
    done();
  });
}

/** Before the body is read, so that a path that does not exist is told whatever was sent to it. */
function refuseEarly(instance: FastifyInstance, table: RouteTable): void {
  instance.addHook('onRequest', (request, reply, done) => {
    const problem = hostProblem(request.raw);
    if (problem !== undefined) {
      sendError(reply, { status: 400, code: 'INVALID_REQUEST', message: problem }, request.trace);
    } else if (request.is404 || table.isTakenByAnother(pathOf(request), request.routeOptions.url ?? '')) {
      sendError(reply, noRoute(request, table), request.trace);
    } else {
      done();
    }
  });
}

function installJson(instance: FastifyInstance): void {
  instance.removeAllContentTypeParsers();
  for (const type of ['application/json', /^application\/[a-z0-9.-]+\+json(;|$)/]) {
    instance.addContentTypeParser<Buffer>(type, { parseAs: 'buffer' }, (_request, body, done) => {
      finish(done, () => parseBody(body));
    });
  }
  instance.addContentTypeParser<Buffer>('*', { parseAs: 'buffer' }, (_request, body, done) => {
    finish(done, () => refuseBody(body));
  });
  instance.setReplySerializer((payload) => stringifyJson(payload));
}

function finish(done: (error: Error | null, body?: unknown) => void, parse: () => unknown): void {
  let body: unknown;
  try {
    body = parse();
  } catch (error) {
    done(error as Error);
    return;
  }
  done(null, body);
}

/** An empty body has no type to be wrong about. */
function refuseBody(body: Buffer): undefined {
  if (body.length > 0) {
    throw new Refusal('INVALID_REQUEST', 'the Content-Type must be application/json');
  }
}

const RAW_ANSWERS: Readonly<Record<string, readonly [status: number, message: string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'the request headers are larger than 16384 bytes, the most that is allowed'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'the request did not arrive in time'],
};

/** A connection, and the answer that Node is about to write to it; only Node's own name leads there. */
type HttpSocket = Duplex & { readonly _httpMessage?: ServerResponse | null };

/** Answers what is no HTTP request at all: there is no Fastify request yet, only the socket. */
export function answerRaw(error: Error & { code?: string }, socket: HttpSocket): void {
  const underWay = socket._httpMessage;
  if (underWay?.req.complete === true && !underWay.writableFinished) {
    // What came after a whole request is wrong, not the request: its own answer goes first, or it would seem refused.
    underWay.once('finish', () => {
      answerRaw(error, socket);
    });
    return;
  }
  if (error.code === 'ECONNRESET' || socket.destroyed || !socket.writable) {
    socket.destroy();
    return;
  }
  const [status, message] = RAW_ANSWERS[error.code ?? ''] ?? [400, 'the request is not valid HTTP'];
  endRaw(socket, { status, code: 'INVALID_REQUEST', message }, {});
}

function endRaw(socket: Duplex, answer: ErrorAnswer, headers: IncomingHttpHeaders): void {
  const { status } = answer;
  const trace = traceFrom(headers, newRequestId());
  const body = errorBody(answer, trace);
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Error'}\r\n` +
      `Content-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n` +
      `${NO_SNIFFING.join(': ')}\r\n${REQUEST_ID_HEADER}: ${trace.requestId}\r\n${TRACE_ID_HEADER}: ${trace.traceId}\r\n\r\n${body}`,
  );
}

const NO_TUNNELS: ErrorAnswer = {
  status: 400,
  code: 'INVALID_REQUEST',
  message: 'this server opens no tunnels: CONNECT is not possible',
};

/** Requests that Node would end by itself, without an answer or outside the protocol's error form. */
export function answerUncommon(server: Server): void {
  server.on('connect', ({ headers }, socket) => {
    // Node has let go of the socket, so that nobody else hears of a client that is gone.
    socket.on('error', () => socket.destroy());
    endRaw(socket, NO_TUNNELS, headers);
  });
  // An expectation that is not known may be ignored (RFC 9110, 10.1.1).
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
}
