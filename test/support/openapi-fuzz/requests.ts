import fc, { type Arbitrary } from 'fast-check';
import type { SpecParameter } from '../spec/index.js';
import { damagedBody, type Damage } from './damage.js';
import { CUT_OFF, framedBody, FRAMINGS, type Framing } from './framing.js';
import type { Known } from './known.js';
import { isPublic, nameOf, type Operation } from './operations.js';
import { HOSTILE_TEXTS, jsonOf, plainOf, type Text } from './values.js';

/** The credentials that a caller sends; `right` is what the operation requires. */
const CREDENTIALS = ['right', 'none', 'unknown', 'swapped', 'both', 'hostile'] as const;
type Credential = (typeof CREDENTIALS)[number];

export interface Keys {
  readonly api: string;
  readonly admin: string;
}

/** A request that is ready to be written to a socket. */
export interface FuzzRequest {
  readonly operation: Operation;
  readonly method: string;
  readonly target: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Buffer | undefined;
  readonly bytes: Buffer;
  /** Whether the body is shorter than its framing announces. */
  readonly cutOff: boolean;
  /** Whether it carries a key that may be accepted. */
  readonly hasKey: boolean;
  /** Whether method, path and framing are valid, so that the request reaches its operation. */
  readonly wellFormed: boolean;
}

/** A request that still needs the known ids and keys to be filled in. */
export type Draft = (known: Known, keys: Keys) => FuzzRequest;

type Headers = (readonly [name: string, value: string])[];

const METHODS = [
  'HEAD',
  'OPTIONS',
  'PUT',
  'TRACE',
  'PATCH',
  'DELETE',
  'POST',
  'GET',
  'QUERY',
  'CONNECT',
  'get',
  'BREW',
  'PRI',
];
const SEGMENTS = [
  '%',
  '%zz',
  '%c0%80',
  '%ff',
  '%00',
  '%2e%2e',
  '..',
  '.',
  '%2F',
  ';a=b',
  'a%0d%0aX-Forged:%201',
  '\\',
  '',
  'a+b',
  '\u00e9',
  '%F0%9F%98%80',
  'x'.repeat(257),
  '__proto__',
];
const QUERIES = [
  '&',
  '=',
  '&&=&',
  '&limit',
  '&limit=1&limit=2',
  '&limit[]=1',
  '&limit[a]=1',
  '&__proto__=1',
  '&constructor=1',
  '&toString=1',
  '&cursor=%ff',
  '&a=%',
  '#f',
  '?',
  `&a=${'x'.repeat(9000)}`,
  '&a'.repeat(2000),
];
const TYPES = [
  'text/plain',
  'application/json; charset=utf-16',
  'application/x-www-form-urlencoded',
  'multipart/form-data',
  'application/JSON',
  'application/ld+json',
  'application/json, text/html',
  '',
  'a'.repeat(300),
  ';',
  '*/*',
  'application/json;'.repeat(20),
];

const many = (count: number): Headers =>
  Array.from({ length: count }, (_, index) => [`X-Many-${index}`, 'x'] as const);

const EXTRA_HEADERS: readonly Headers[] = [
  ...[
    'traceparent',
    'X-Cycles-Trace-Id',
    'X-Request-Id',
    'X-Forwarded-For',
    'Accept',
    'X-Idempotency-Key',
    'Content-Encoding',
    'Referer',
    '__proto__',
  ].flatMap((name) =>
    HOSTILE_TEXTS.filter((text) => text.length < 10_000).map((text): Headers => [[name, text]]),
  ),
  ...['100-continue', 'nothing'].map((value): Headers => [['Expect', value]]),
  ...['websocket', 'h2c'].map((value): Headers => [
    ['Connection', 'Upgrade'],
    ['Upgrade', value],
  ]),
  ...['gzip', 'identity'].map((value): Headers => [['Content-Encoding', value]]),
  [['Host', 'again']],
  [['Host', '\u0000']],
  [['Content-Type', 'text/plain']],
  [['X-HTTP-Method-Override', 'DELETE']],
  [['Bad Name', 'x']],
  [['', 'x']],
  [['traceparent', `00-${'0'.repeat(32)}-${'0'.repeat(16)}-00`]],
  [['X-Huge', 'x'.repeat(20_000)]],
  many(100),
  many(1500),
];

/** Mostly the usual value; the others are rare, so that most requests are valid in all respects but one. */
const seldom = <T>(usual: T, ...others: readonly T[]): Arbitrary<T> =>
  fc.oneof(
    { weight: 40, arbitrary: fc.constant(usual) },
    { weight: 1, arbitrary: fc.constantFrom(...others) },
  );

/** Requests to one operation, from valid ones to some that no client would send. */
export function requestsTo(operation: Operation): Arbitrary<Draft> {
  return fc
    .record({
      method: seldom(operation.method, ...METHODS),
      path: pathOf(operation),
      query: queryOf(operation.parameters.filter((parameter) => parameter.in === 'query')),
      credential: fc.oneof(
        { weight: 12, arbitrary: fc.constant<Credential>('right') },
        { weight: 3, arbitrary: fc.constantFrom<Credential>(...CREDENTIALS) },
      ),
      headers: headersOf(operation.parameters.filter((parameter) => parameter.in === 'header')),
      extra: fc.oneof(
        { weight: 8, arbitrary: fc.constant<Headers>([]) },
        { weight: 1, arbitrary: fc.constantFrom(...EXTRA_HEADERS) },
      ),
      hostile: fc.constantFrom(...HOSTILE_TEXTS.filter((text) => text.length < 10_000)),
      type: seldom('application/json', ...TYPES),
      body: bodyOf(operation),
      damage: damagedBody,
      framing: seldom<Framing>('exact', ...FRAMINGS),
    })
    .map((parts) => {
      const draft: Draft = (known, keys) => assemble(operation, parts, known, keys);
      return Object.assign(draft, { [fc.toStringMethod]: () => nameOf(operation) });
    });
}

interface Parts {
  readonly method: string;
  readonly path: Text;
  readonly query: Text;
  readonly credential: Credential;
  readonly headers: (known: Known) => Headers;
  readonly extra: Headers;
  readonly hostile: string;
  readonly type: string;
  readonly body: Text | undefined;
  readonly damage: Damage;
  readonly framing: Framing;
}

function assemble(operation: Operation, parts: Parts, known: Known, keys: Keys): FuzzRequest {
  const { method, credential, extra } = parts;
  const path = parts.path(known);
  const target = path + parts.query(known);
  const body = parts.body === undefined ? undefined : parts.damage(Buffer.from(parts.body(known)));
  const type: Headers = body === undefined ? [] : [['Content-Type', parts.type]];
  const headers: Headers = [
    ...credentials(operation, credential, keys, parts.hostile),
    ...parts.headers(known),
    ...type,
    ...extra,
  ];
  const framed =
    body === undefined ? { head: [], payload: Buffer.alloc(0) } : framedBody(body, parts.framing);
  const lines = [['Host', 'fuzz'], ['Connection', 'close'], ...headers, ...framed.head].map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  return {
    operation,
    method,
    target,
    headers,
    body,
    bytes: Buffer.concat([
      Buffer.from(`${method} ${target} HTTP/1.1\r\n${lines.join('')}\r\n`),
      framed.payload,
    ]),
    cutOff: body !== undefined && CUT_OFF.has(parts.framing),
    hasKey: credential !== 'none' && credential !== 'unknown' && credential !== 'hostile',
    wellFormed:
      method === operation.method &&
      /^(\/[\w.~-]+)+$/.test(path) &&
      parts.framing === 'exact' &&
      extra.length === 0,
  };
}

function credentials(operation: Operation, credential: Credential, keys: Keys, hostile: string): Headers {
  const api = (value: string) => ['X-Cycles-API-Key', value] as const;
  const admin = (value: string) => ['X-Admin-API-Key', value] as const;
  const { takes } = operation;
  switch (credential) {
    case 'none':
      return [];
    case 'unknown':
      return [api(`cyc_live_00${'A'.repeat(43)}`), admin('an-admin-key-that-is-none')];
    case 'hostile':
      return [api(hostile), admin(hostile)];
    case 'both':
      return [api(keys.api), admin(keys.admin)];
    case 'swapped':
      return takes.apiKey ? [admin(keys.admin)] : [api(keys.api)];
    case 'right':
      return isPublic(operation) ? [] : [takes.apiKey ? api(keys.api) : admin(keys.admin)];
  }
}

function pathOf({ template, parameters }: Operation): Arbitrary<Text> {
  const values = Object.fromEntries(
    parameters
      .filter((parameter) => parameter.in === 'path')
      .map(({ name, schema = {} }) => [
        name,
        fc.tuple(plainOf(schema, name), seldom<string | undefined>(undefined, ...SEGMENTS)),
      ]),
  );
  const whole = seldom((path: string) => path, ...PATH_CHANGES);
  return fc.tuple(fc.record(values), whole).map(
    ([found, change]) =>
      (known) =>
        change(
          template.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
            const [text, raw] = found[name] as [Text, string | undefined];
            return raw ?? percentEncoded(text(known));
          }),
        ),
  );
}

const PATH_CHANGES: readonly ((path: string) => string)[] = [
  (path) => `/${path}`,
  (path) => `${path}/`,
  (path) => `http://elsewhere${path}`,
  () => '*',
  () => '',
  (path) => path.toUpperCase(),
  (path) => path.replace('/v1', '/v1/../v1'),
  (path) => path.replaceAll('/', '%2F'),
  (path) => `${path}%`,
  (path) => `${path}/${'x'.repeat(15_000)}`,
  (path) => `${path} extra`,
];

function percentEncoded(text: string): string {
  // A lone surrogate has no UTF-8 encoding; a buffer writes U+FFFD instead.
  return encodeURIComponent(Buffer.from(text.slice(0, 4000)).toString());
}

function queryOf(parameters: readonly SpecParameter[]): Arbitrary<Text> {
  const pairs = parameters.map(({ name, schema = {}, required = false }) =>
    fc.tuple(plainOf(schema, name), fc.nat(9)).map(
      ([text, chance]) =>
        (known: Known) =>
          (required && chance > 0) || chance > 7 ? [`${name}=${percentEncoded(text(known))}`] : [],
    ),
  );
  return fc.tuple(fc.tuple(...pairs), seldom('', ...QUERIES)).map(([found, odd]) => (known) => {
    const query = found.flatMap((pair) => pair(known)).join('&') + odd;
    return query === '' ? '' : `?${query}`;
  });
}

function headersOf(parameters: readonly SpecParameter[]): Arbitrary<(known: Known) => Headers> {
  const values = parameters.map(({ name, schema = {} }) =>
    fc.tuple(plainOf(schema, name), fc.nat(19)).map(
      ([text, chance]) =>
        (known: Known): Headers =>
          chance === 0 ? [[name, text(known)]] : [],
    ),
  );
  return fc.tuple(...values).map((found) => (known) => found.flatMap((header) => header(known)));
}

function bodyOf({ body }: Operation): Arbitrary<Text | undefined> {
  // Sending a body where none is expected is a mistake that clients make.
  return body === undefined
    ? seldom<Text | undefined>(
        undefined,
        () => '{}',
        () => '{"a":',
        () => '[]',
      )
    : jsonOf(body);
}
