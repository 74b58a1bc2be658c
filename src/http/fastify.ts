import type { IncomingMessage } from 'node:http';
import { isIPv6 } from 'node:net';
import cors from '@fastify/cors';
import {
  fastify,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify';
import type { HoldfastConfig } from '../config/index.js';
import { EncodedBody, headerText, oneLine, Refusal } from '../ledger/index.js';
import type { Logger } from '../telemetry/index.js';
import { parseBody, stringifyJson } from '../wire/index.js';
import { answerTo, noRoute, NOTHING_HERE, pathOf, sendError, SKIPPED_HEADER } from './errors/error-answer.js';
import { LARGE_BODY_BYTES, LargeBodies } from './large-bodies.js';
import { isOperatorsPlane, lacksOperatorsPlane } from './operators-plane.js';
import { answerRaw, answerUncommon, NO_SNIFFING } from './raw-answers.js';
import { installRouteTable, type RouteTable } from './route-table.js';
import { installTracing, newRequestId, REQUEST_ID_HEADER, startTrace, TRACE_ID_HEADER } from './tracing.js';

/** All valid requests fit: the largest are policies and bulk actions. */
export const BODY_LIMIT_BYTES = 262_144;

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];
/** Request headers of the protocol and of Holdfast. Browsers allow some others by default. */
const REQUEST_HEADERS = [
  'Authorization',
  'Content-Type',
  'If-None-Match',
  'traceparent',
  'tracestate',
  'X-Admin-API-Key',
  'X-Cycles-API-Key',
  'X-Holdfast-Charge-On-Expiry',
  'X-Holdfast-Explain',
  'X-Holdfast-Wait-Ms',
  TRACE_ID_HEADER,
  'X-Idempotency-Key',
  REQUEST_ID_HEADER,
];
/** Response headers of the protocol. Browsers expose some others by default. */
const RESPONSE_HEADERS = [
  'Allow',
  'Content-Disposition',
  'ETag',
  'Retry-After',
  'X-Cycles-Cascade-Status',
  'X-Cycles-Permission-Deprecated',
  'X-Cycles-Tenant',
  SKIPPED_HEADER,
  TRACE_ID_HEADER,
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
  REQUEST_ID_HEADER,
];
/** How long browsers may cache a preflight response. */
const PREFLIGHT_MAX_AGE_S = 3600;

/**
 * Allows pages of these origins to use the API from a browser. Keys are sent in headers, so credentials of the browser, such as
 * cookies, are not allowed. Requests from other origins, or without one, are handled as if CORS were off. Refusals of later hooks have
 * the headers, too, so pages can read them.
 */
export async function installCors(fastify: FastifyInstance, origins: readonly string[]): Promise<void> {
  await fastify.register(cors, {
    origin: (origin, decide) =>
      decide(null, origin !== undefined && origins.includes(origin) ? origin : false),
    methods: METHODS,
    allowedHeaders: REQUEST_HEADERS,
    exposedHeaders: RESPONSE_HEADERS,
    maxAge: PREFLIGHT_MAX_AGE_S,
    // The strict mode would refuse an OPTIONS request that is not a preflight with a body that is not the protocol's.
    strictPreflight: false,
  });
}

/** `uri-host [ ":" port ]` of RFC 9110, section 7.2, whose host may be empty. */
const HOST =
  /^(?:\[([0-9A-Fa-f:.]+)\]|\[v[0-9A-Fa-f]+\.[\w.~!$&'()*+,;=:-]+\]|(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::\d*)?$/;

/** The last valid one. Nearly all requests to a server have the same. */
let validHost = '';

/**
 * What is wrong with the Host header by RFC 9112, section 3.2, if anything. With two of them, a proxy and this server may see different
 * hosts. Node keeps only the first, so this checks the raw headers.
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
  if (host === validHost) {
    return undefined;
  }
  const parts = HOST.exec(host);
  const isValid = parts !== null && (parts[1] === undefined || isIPv6(parts[1]));
  validHost = isValid ? host : validHost;
  return isValid ? undefined : 'the Host header is not a valid host, with or without a port';
}

/** Longer than the idle timeout of common load balancers (60 s), so that the balancer closes idle connections, not this server. */
const KEEP_ALIVE_TIMEOUT_MS = 72_000;
/** How long a client may take to send its request. Does not limit the response. */
const REQUEST_TIMEOUT_MS = 30_000;
/** How often Node looks for clients that have taken longer. Its default is 30 s, so that they could take twice as long. */
const CHECK_INTERVAL_MS = 1000;
/** Reservation ids have at most 128 characters, tenant ids 64. Scopes are never part of a path. */
const MAX_PARAM_LENGTH = 256;

/**
 * Options with which servers are created. Only then does Node derive the limit for the headers from that for the request. If the former
 * were the longer one, as by default, Node would apply it to the whole request.
 */
export const SERVER_OPTIONS = {
  requireHostHeader: false,
  requestTimeout: REQUEST_TIMEOUT_MS,
  connectionsCheckingInterval: CHECK_INTERVAL_MS,
} as const;

type AnswerListener = (request: FastifyRequest, reply: FastifyReply) => void;

export interface HttpServer {
  readonly fastify: FastifyInstance;
  readonly routes: RouteTable;
  readonly largeBodies: LargeBodies;
  /** Calls the listener for each response before routing, for which Fastify runs no hooks. */
  readonly onRouterRefusal: (listener: AnswerListener) => void;
}

/** Creates the Fastify instance with everything that must be installed before Nest adds the routes. */
export async function createFastify(
  logger: Logger,
  { trustProxy, corsOrigins }: Pick<HoldfastConfig, 'trustProxy' | 'corsOrigins'>,
): Promise<HttpServer> {
  const router: { refused?: AnswerListener } = {};
  const instance = fastify({
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    // A child logger per request costs more than tracing and metrics together. Log lines add the request id themselves.
    childLoggerFactory: (parent) => parent,
    genReqId: newRequestId,
    requestIdHeader: false,
    bodyLimit: BODY_LIMIT_BYTES,
    trustProxy: trustProxy === undefined ? false : [...trustProxy],
    // Otherwise, Node would refuse a request without Host with a body that is not the protocol's.
    http: SERVER_OPTIONS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    // A request that arrives on an open connection during shutdown is answered normally.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    routerOptions: { maxParamLength: MAX_PARAM_LENGTH },
    frameworkErrors: (error, request, reply) => {
      startTrace(request, reply);
      router.refused?.(request, reply);
      reply.header(...NO_SNIFFING);
      sendError(reply, isWithheld(request) ? NOTHING_HERE : answerTo(error, request), request.trace);
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
  refuseEarly(instance, table);
  const largeBodies = new LargeBodies();
  installJson(instance, largeBodies);
  return {
    largeBodies,
    fastify: instance,
    routes: table,
    onRouterRefusal: (listener) => {
      router.refused = listener;
    },
  };
}

function forbidSniffing(instance: FastifyInstance): void {
  instance.addHook('onRequest', (_request, reply, done) => {
    reply.header(...NO_SNIFFING);
    done();
  });
}

/** Runs before the body is read, so that an unknown path gets 404 whatever its body. */
function refuseEarly(instance: FastifyInstance, table: RouteTable): void {
  instance.addHook('onRequest', (request, reply, done) => {
    const problem = hostProblem(request.raw);
    if (problem !== undefined) {
      sendError(reply, { status: 400, code: 'INVALID_REQUEST', message: problem }, request.trace);
    } else if (isWithheld(request)) {
      sendError(reply, NOTHING_HERE, request.trace);
    } else if (request.is404 || table.matchesMoreSpecific(pathOf(request), request.routeOptions.url ?? '')) {
      sendError(reply, noRoute(request, table), request.trace);
    } else {
      done();
    }
  });
}

/** By the route if there is one, because any character of a path may be percent-encoded. */
function isWithheld(request: FastifyRequest): boolean {
  const route = request.is404 ? undefined : request.routeOptions.url;
  return lacksOperatorsPlane(request.raw) && isOperatorsPlane(route ?? pathOf(request));
}

function installJson(instance: FastifyInstance, largeBodies: LargeBodies): void {
  instance.removeAllContentTypeParsers();
  for (const type of ['application/json', /^application\/[a-z0-9.-]+\+json(;|$)/]) {
    instance.addContentTypeParser<Buffer>(type, { parseAs: 'buffer' }, (request, body, done) => {
      const parse = (): unknown => parseBody(decoded(request, body));
      if (body.length <= LARGE_BODY_BYTES) {
        finish(done, parse);
        return;
      }
      largeBodies.inTurn(request, () => finish(done, parse)).catch(done);
    });
  }
  instance.addContentTypeParser<Buffer>('*', { parseAs: 'buffer' }, (request, body, done) => {
    finish(done, () => refuseBody(decoded(request, body)));
  });
  instance.setReplySerializer((payload) => stringifyJson(payload));
}

/** @throws EncodedBody */
function decoded({ headers }: FastifyRequest, body: Buffer): Buffer {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? '';
  if (body.length > 0 && encoding !== '' && encoding !== 'identity') {
    throw new EncodedBody(oneLine(headerText(encoding)).slice(0, MAX_SHOWN_ENCODING));
  }
  return body;
}

const MAX_SHOWN_ENCODING = 64;

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

/** An empty body is allowed with any type. */
function refuseBody(body: Buffer): undefined {
  if (body.length > 0) {
    throw new Refusal('INVALID_REQUEST', 'the Content-Type must be application/json');
  }
}
