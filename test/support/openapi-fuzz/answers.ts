import { ERROR_CATALOGUE } from '../../../src/http/errors/error-answer.js';
import { readJson } from '../../../src/wire/exact-json.js';
import { balanceProblems } from '../balance-rules.js';
import { isOfExtensions, sdkProblems } from '../sdk-rules.js';
import { contractProblems } from '../spec/index.js';
import { isPublic } from './operations.js';
import type { FuzzRequest } from './requests.js';
import type { WireAnswer } from './wire.js';

const ERROR_MEMBERS = ['error', 'message', 'request_id', 'trace_id', 'details'];
/** The first status that blames the server. No request, however malformed, may cause it. */
const SERVER_ERROR = 500;

export interface JudgedAnswer extends WireAnswer {
  /** The parsed body; undefined if it is not JSON. */
  readonly body: unknown;
  readonly problems: readonly string[];
}

/** Parses the response, and lists what no request may cause, however it was made. */
export function judge(request: FuzzRequest, answer: WireAnswer): JudgedAnswer {
  const { status, headers, text, surplus } = answer;
  const isJson = headers.get('content-type')?.startsWith('application/json') === true && text !== '';
  const problems: string[] = [];
  // Bytes that the server did not expect after a request may reset the connection before the whole response
  // has arrived.
  const isLost = answer.isCut && !request.wellFormed;
  const body = isJson && !isLost ? parsed(text, problems) : undefined;
  if (status >= SERVER_ERROR) {
    problems.push(`a request must not cause ${status}`);
  }
  if (
    !/^req_[0-9a-f]{24}$/.test(headers.get('x-request-id') ?? '') ||
    !/^[0-9a-f]{32}$/.test(headers.get('x-cycles-trace-id') ?? '')
  ) {
    problems.push('the response lacks a request id or a trace id');
  }
  // If the server cannot read the method, it sends a body even for HEAD.
  if (surplus !== '' && (request.wellFormed || surplus.includes('HTTP/1.1 '))) {
    problems.push(`the response is followed by ${JSON.stringify(surplus)}`);
  }
  if (headers.has('x-forged')) {
    problems.push('a header of the request became one of the response');
  }
  if (status >= 400 && request.method !== 'HEAD' && !isLost) {
    problems.push(...errorProblems(body, headers));
  }
  if (status < 400 && !request.hasKey && !isPublic(request.operation)) {
    problems.push('the operation accepted a caller without a valid key');
  }
  if (request.wellFormed) {
    problems.push(...protocolProblems(request, answer, body));
  }
  return { ...answer, body, problems };
}

function parsed(text: string, problems: string[]): unknown {
  try {
    return readJson(text);
  } catch (error) {
    problems.push(`the response is not JSON: ${String(error)}`);
    return undefined;
  }
}

function errorProblems(body: unknown, headers: Headers): string[] {
  if (typeof body !== 'object' || body === null) {
    return ['a refusal needs a JSON body'];
  }
  const { error, message, request_id, trace_id } = body as Record<string, unknown>;
  const extra = Object.keys(body).filter((name) => !ERROR_MEMBERS.includes(name));
  const named = request_id === headers.get('x-request-id') && trace_id === headers.get('x-cycles-trace-id');
  return [
    ...extra.map((name) => `a refusal must not have the member ${name}`),
    ...(typeof error === 'string' && Object.hasOwn(ERROR_CATALOGUE, error)
      ? []
      : [`the error code ${String(error)} is not in the catalogue`]),
    ...(typeof message === 'string' && message !== '' ? [] : ['a refusal needs a message']),
    ...(named ? [] : ['request_id and trace_id of a refusal must equal the headers']),
  ];
}

/** The checks that apply to every response of the HTTP tests. */
function protocolProblems(
  request: FuzzRequest,
  { status, headers, text }: WireAnswer,
  body: unknown,
): string[] {
  const { method, target } = request;
  const requestHeaders = new Headers();
  for (const [name, value] of request.headers) {
    // Skip headers that `fetch` would reject; the protocol does not mention them.
    if (/^[\w-]+$/.test(name) && /^[\x20-\x7e]*$/.test(value)) {
      requestHeaders.append(name, value);
    }
  }
  const exchange = {
    method,
    path: target,
    requestHeaders,
    requestBody: request.body?.toString('utf8'),
    status,
    headers,
    text,
    body,
  };
  return [
    ...contractProblems(exchange),
    // A request may use the extensions, or may have put its tenant into observe mode.
    ...sdkProblems(method, target, status, body).filter((problem) => !isOfExtensions(problem)),
    ...balanceProblems(body),
  ];
}
