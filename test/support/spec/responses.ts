import type { ValidateFunction } from 'ajv/dist/2020.js';
import { INT64_MAX } from '../../../src/ledger/amount.js';
import {
  findOperation,
  findPath,
  governanceBalances,
  loadSpec,
  type Plane,
  type Spec,
  type SpecOperation,
} from './documents.js';
import { eventDataSchemaOf } from './event-data.js';
import { problemsOf, SchemaBook } from './schema-book.js';

/** A request and its response, as a client sees them. */
export interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly requestHeaders: Headers;
  readonly requestBody: string | undefined;
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body, with integers beyond 2^53 as bigint; undefined if it is not JSON. */
  readonly body: unknown;
}

/** Holdfast's own paths and those that tests add; the protocol does not cover them. */
const OUTSIDE = [
  /^\/health\//,
  /^\/actuator\//,
  /^\/metrics$/,
  /^\/docs(\/|$)/,
  /^\/openapi\.json$/,
  /^\/ops\//,
  /^\/probe\//,
  /^\/v1\/forgotten$/,
];

/** Statuses that any operation may return without declaring them, with the reason. */
const ALLOWED_ANYWHERE: Readonly<Record<number, string>> = {
  408: 'the request did not arrive in time; this is below the protocol',
  413: 'the body is larger than this server accepts; this is below the protocol',
  431: 'the headers are larger than this server accepts; this is below the protocol',
  429: 'ERROR SEMANTICS of cycles-protocol-v0 reserves it for throttling, on any operation',
  503: 'the store is unavailable: a client must learn that a retry may succeed, and 500 does not say so',
};

const KEPT_REGISTRY = 'PUBLIC ENDPOINT RATE LIMITING: a client that sends If-None-Match gets 304 instead';
const NOT_A_REQUEST = 'invalid HTTP, or a path longer than this server accepts; this is below the protocol';

/** The same for single operations, by operation id. */
const ALLOWED: Readonly<Record<string, Readonly<Record<number, string>>>> = {
  listActionKinds: { 304: KEPT_REGISTRY },
  getActionKind: { 304: KEPT_REGISTRY, 400: NOT_A_REQUEST },
  getEvidenceJwks: { 400: NOT_A_REQUEST },
  updateTenant: { 409: 'CASCADE SEMANTICS, Rule 2: a closed tenant refuses every change with TENANT_CLOSED' },
};

const EVENT_READS = ['listEvents', 'getEvent', 'listTenantEvents'];
const INT64_MIN = -INT64_MAX - 1n;
const TRACE_ID = /^[0-9a-f]{32}$/;
/** A member that holds a secret, or an API key anywhere. */
const SECRET = /"(?:key_secret|signing_secret)":"(?!\*)|cyc_live_[0-9a-f]{2}[0-9A-Za-z]{43}/;
const WHOLE_SECONDS = /^\d+$/;
const ERROR_MEMBERS = ['error', 'message', 'request_id', 'trace_id', 'details', 'cycles_evidence'];

/**
 * How a response violates the protocol's OpenAPI documents. Without documents, only the headers are checked.
 */
export function contractProblems(exchange: Exchange): string[] {
  const path = exchange.path.split('?', 1)[0] as string;
  const problems = [...headerProblems(exchange), ...exposureProblems(exchange)];
  const spec = loadSpec();
  if (spec === undefined || OUTSIDE.some((pattern) => pattern.test(path))) {
    return problems;
  }
  const operation =
    governanceBalances(spec, exchange.method, exchange.path) ?? findOperation(spec, exchange.method, path);
  if (operation === undefined) {
    return [...problems, ...unknownTargetProblems(spec, exchange, path)];
  }
  const declared = operation.responses.has(exchange.status);
  if (
    !declared &&
    ALLOWED_ANYWHERE[exchange.status] === undefined &&
    ALLOWED[operation.id]?.[exchange.status] === undefined
  ) {
    problems.push(`${operation.id} does not declare the status ${exchange.status}`);
  }
  if (exchange.status >= 400) {
    return [...problems, ...errorProblems(spec, exchange, operation.plane)];
  }
  return [...problems, ...successProblems(spec, exchange, operation)];
}

/** CORRELATION AND TRACING: every response of every plane has both identifiers. */
function headerProblems({ status, headers }: Exchange): string[] {
  const problems: string[] = [];
  if (!/^req_[0-9a-f]{24}$/.test(headers.get('x-request-id') ?? '')) {
    problems.push(`X-Request-Id is ${headers.get('x-request-id')}`);
  }
  if (!TRACE_ID.test(headers.get('x-cycles-trace-id') ?? '')) {
    problems.push(`X-Cycles-Trace-Id is ${headers.get('x-cycles-trace-id')}`);
  }
  if ((status === 429 || status === 503) && !WHOLE_SECONDS.test(headers.get('retry-after') ?? '0')) {
    problems.push(`Retry-After is ${headers.get('retry-after')}, which is not a whole number of seconds`);
  }
  if (status === 429 && (headers.get('retry-after') === null || headers.get('x-ratelimit-reset') === null)) {
    problems.push('429 needs Retry-After and X-RateLimit-Reset');
  }
  for (const name of ['x-ratelimit-remaining', 'x-ratelimit-reset']) {
    const value = headers.get(name);
    if (value !== null && !/^-?\d+$/.test(value)) {
      problems.push(`${name} is ${value}, which is not an integer`);
    }
  }
  return problems;
}

/** Browsers must not guess a response's type, and caches must not store secrets. */
function exposureProblems({ headers, text }: Exchange): string[] {
  const problems: string[] = [];
  if (headers.get('x-content-type-options') !== 'nosniff') {
    problems.push(`X-Content-Type-Options is ${headers.get('x-content-type-options')}`);
  }
  if (SECRET.test(text) && headers.get('cache-control') !== 'no-store') {
    problems.push(`a response with a secret has Cache-Control ${headers.get('cache-control')}`);
  }
  return problems;
}

/**
 * Statuses for an unknown path or method. A request line beyond the size limit of the headers gets 431 before
 * it is looked up.
 */
const UNKNOWN_TARGET_STATUSES = [400, 404, 405, 431];

/** The operations under /v1 that the protocol does not have. */
export const OWN_OPERATIONS = [
  'POST /v1/reservation-sets',
  'POST /v1/reservations/{reservation_id}/refunds',
  'POST /v1/events/{event_id}/refunds',
  'POST /v1/batch',
  'GET /v1/usage',
  'GET /v1/credits',
];
const OWN = new RegExp(`^(?:${OWN_OPERATIONS.join('|').replaceAll(/\{\w+\}/g, '[^/]+')})$`);

/** For a path or a method that the protocol does not have. */
function unknownTargetProblems(spec: Spec, exchange: Exchange, path: string): string[] {
  const neighbour = findPath(spec, path);
  if (OWN.test(`${exchange.method} ${path}`)) {
    return exchange.status === 200 ? [] : errorProblems(spec, exchange, 'runtime');
  }
  if (!UNKNOWN_TARGET_STATUSES.includes(exchange.status)) {
    return [`the protocol has no ${exchange.method} ${path}, and the response is ${exchange.status}`];
  }
  return errorProblems(
    spec,
    exchange,
    neighbour?.plane ?? (/^\/v1\/(admin|auth)\//.test(path) ? 'governance' : 'runtime'),
  );
}

function errorProblems(spec: Spec, exchange: Exchange, plane: Plane): string[] {
  if (exchange.method === 'HEAD') {
    return [];
  }
  const problems = schemaProblems(spec, plane, '#/components/schemas/ErrorResponse', exchange);
  const { body, headers } = exchange;
  if (typeof body !== 'object' || body === null) {
    return [...problems, 'an error needs a JSON body'];
  }
  const found = body as Record<string, unknown>;
  for (const name of Object.keys(found)) {
    if (!ERROR_MEMBERS.includes(name)) {
      problems.push(`an error must not have the member ${name}`);
    }
  }
  if (
    found['request_id'] !== headers.get('x-request-id') ||
    found['trace_id'] !== headers.get('x-cycles-trace-id')
  ) {
    problems.push('request_id and trace_id of an error must equal the headers');
  }
  return problems;
}

function successProblems(spec: Spec, exchange: Exchange, operation: SpecOperation): string[] {
  const problems: string[] = [];
  const response = operation.responses.get(exchange.status);
  const pointer = operation.responsePointers.get(exchange.status);
  if (pointer !== undefined) {
    problems.push(
      ...schemaProblems(spec, operation.plane, pointer, exchange),
      ...integerProblems(exchange.body, ''),
    );
  } else if (exchange.text !== '') {
    problems.push(`${operation.id} declares no body for ${exchange.status}`);
  }
  problems.push(...eventProblems(spec, exchange, operation), ...acceptedProblems(spec, exchange, operation));
  const asTenant =
    exchange.requestHeaders.has('x-cycles-api-key') && !exchange.requestHeaders.has('x-admin-api-key');
  if (
    asTenant &&
    response?.headers?.['X-Cycles-Tenant'] !== undefined &&
    (exchange.headers.get('x-cycles-tenant') ?? '') === ''
  ) {
    problems.push('X-Cycles-Tenant is missing');
  }
  return problems;
}

/** An event's payload has its own schema, which the schema of Event only mentions. */
function eventProblems(spec: Spec, { text }: Exchange, { id }: SpecOperation): string[] {
  if (!EVENT_READS.includes(id)) {
    return [];
  }
  const body = JSON.parse(text) as EventAnswer;
  return (body.events ?? [body]).flatMap(({ event_type: type = '', data }) => {
    const schema = eventDataSchemaOf(type);
    const problems =
      schema === undefined
        ? []
        : problemsOf(validatorOf(spec, 'governance', `#/components/schemas/${schema}`), data);
    return problems.map((problem) => `${type}: ${problem}`);
  });
}

interface EventAnswer {
  readonly events?: readonly EventAnswer[];
  readonly event_type?: string;
  readonly data?: unknown;
}

/**
 * After a success the protocol must allow the request. A client that relies on our success would be refused
 * by another server.
 */
function acceptedProblems(
  spec: Spec,
  { requestBody }: Exchange,
  { id, plane, body }: SpecOperation,
): string[] {
  if (body === undefined || (requestBody ?? '') === '') {
    return body?.required === true ? [`${id} accepted a request without a body`] : [];
  }
  return problemsOf(
    validatorOf(spec, plane, body.pointer),
    withoutCleared(id, JSON.parse(requestBody as string)),
  ).map((problem) => `${id} took a body that the protocol refuses: ${problem}`);
}

/**
 * Null clears these members, as the protocol's own dashboard expects, although the schema allows only strings
 * and objects.
 */
const CLEARED_BY_NULL = ['name', 'description', 'scope_filter', 'metadata'];

function withoutCleared(id: string, body: unknown): unknown {
  if (id !== 'updateWebhookSubscription' && id !== 'updateTenantWebhook') {
    return body;
  }
  return Object.fromEntries(
    Object.entries(body as object).filter(
      ([name, value]) => value !== null || !CLEARED_BY_NULL.includes(name),
    ),
  );
}

/** Members that return what the client sent, including numbers of any size. */
const FREE: readonly string[] = ['metadata', 'committed_metadata'];

/** The schema check sees doubles, so this looks for integers beyond int64 in the exact values. */
function integerProblems(value: unknown, at: string): string[] {
  if (typeof value === 'bigint') {
    return value > INT64_MAX || value < INT64_MIN ? [`${at} is ${value}, which is no int64`] : [];
  }
  if (typeof value !== 'object' || value === null) {
    return [];
  }
  return Object.entries(value).flatMap(([name, entry]) =>
    FREE.includes(name) ? [] : integerProblems(entry, `${at}/${name}`),
  );
}

function schemaProblems(
  spec: Spec,
  plane: Plane,
  pointer: string,
  { text, headers, status }: Exchange,
): string[] {
  if (headers.get('content-type')?.startsWith('application/json') !== true) {
    return [`the content type of ${status} is ${headers.get('content-type')}`];
  }
  return problemsOf(validatorOf(spec, plane, pointer), JSON.parse(text));
}

let book: SchemaBook | undefined;

function validatorOf(spec: Spec, plane: Plane, pointer: string): ValidateFunction {
  book ??= new SchemaBook({ ...spec.documents, governance: withCustomEvents(spec.documents.governance) });
  return book.validatorOf(plane, pointer);
}

/** The description of EventType allows servers to add their own types to those that its schema lists. */
function withCustomEvents(document: object): object {
  const { components, ...rest } = document as { components: { schemas: Record<string, object> } };
  const { EventType = {} } = components.schemas;
  const open = { anyOf: [EventType, { type: 'string', pattern: '^custom\\.' }] };
  return { ...rest, components: { ...components, schemas: { ...components.schemas, EventType: open } } };
}
