import { ERROR_CATALOGUE } from '../../../src/http/errors/error-answer.js';
import { parseJson } from '../../../src/wire/json.js';
import { balanceProblems } from '../balance-rules.js';
import { isOfExtensions, sdkProblems } from '../sdk-rules.js';
import { contractProblems } from '../spec/index.js';
import { isPublic } from './operations.js';
import type { FuzzRequest } from './requests.js';
import type { WireAnswer } from './wire.js';

const ERROR_MEMBERS = ['error', 'message', 'request_id', 'trace_id', 'details'];
/** Whatever was wrong with a request, it was the client's fault. */
const SERVER_ERROR = 500;

export interface JudgedAnswer extends WireAnswer {
  /** The parsed body; undefined when it is no JSON. */
  readonly body: unknown;
  readonly problems: readonly string[];
}

/** What no request may bring about, however it was made. */
export function judge(request: FuzzRequest, answer: WireAnswer): JudgedAnswer {
  const { status, headers, text, surplus } = answer;
  const isJson = headers.get('content-type')?.startsWith('application/json') === true && text !== '';
  const problems: string[] = [];
  // Bytes that nobody waited for, behind a request, may reset the connection while its answer is on the way.
  const isLost = answer.isCut && !request.wellFormed;
  const body = isJson && !isLost ? parsed(text, problems) : undefined;
  if (status >= SERVER_ERROR) {
    problems.push(`a request must not bring about ${status}`);
  }
  if (
    !/^req_[0-9a-f]{24}$/.test(headers.get('x-request-id') ?? '') ||
    !/^[0-9a-f]{32}$/.test(headers.get('x-cycles-trace-id') ?? '')
  ) {
    problems.push('the answer names no request or no trace');
  }
  // A request whose method could not be read gets a body, even if the method was HEAD.
  if (surplus !== '' && (request.wellFormed || surplus.includes('HTTP/1.1 '))) {
    problems.push(`the answer is followed by ${JSON.stringify(surplus)}`);
  }
  if (headers.has('x-forged')) {
    problems.push('a header of the request became one of the answer');
  }
  if (status >= 400 && request.method !== 'HEAD' && !isLost) {
    problems.push(...errorProblems(body, headers));
  }
  if (status < 400 && !request.hasKey && !isPublic(request.operation)) {
    problems.push('the operation let in a caller without a valid key');
  }
  if (request.wellFormed) {
    problems.push(...protocolProblems(request, answer, body));
  }
  return { ...answer, body, problems };
}

function parsed(text: string, problems: string[]): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    problems.push(`the answer is no JSON: ${String(error)}`);
    return undefined;
  }
}

function errorProblems(body: unknown, headers: Headers): string[] {
  if (typeof body !== 'object' || body === null) {
    return ['a refusal needs a JSON body'];
  }
  const { error, message, request_id, trace_id } = body as Record<string, unknown>;
  const strangers = Object.keys(body).filter((name) => !ERROR_MEMBERS.includes(name));
  const named = request_id === headers.get('x-request-id') && trace_id === headers.get('x-cycles-trace-id');
  return [
    ...strangers.map((name) => `a refusal has no member ${name}`),
    ...(typeof error === 'string' && Object.hasOwn(ERROR_CATALOGUE, error)
      ? []
      : [`the error code ${String(error)} is in no catalogue`]),
    ...(typeof message === 'string' && message !== '' ? [] : ['a refusal says why']),
    ...(named ? [] : ['request_id and trace_id of a refusal must equal the headers']),
  ];
}

/** What every answer of the HTTP tests is held to as well. */
function protocolProblems(
  request: FuzzRequest,
  { status, headers, text }: WireAnswer,
  body: unknown,
): string[] {
  const { method, target } = request;
  const requestHeaders = new Headers();
  for (const [name, value] of request.headers) {
    // Others are no headers that `fetch` knows, and the protocol says nothing about them.
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
    // A request may use the extensions, or have put its tenant into observe mode.
    ...sdkProblems(method, target, status, body).filter((problem) => !isOfExtensions(problem)),
    ...balanceProblems(body),
  ];
}
