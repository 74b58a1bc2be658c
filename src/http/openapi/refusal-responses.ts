import type { ErrorCode } from '../../ledger/index.js';
import { ERROR_CATALOGUE } from '../errors/error-answer.js';
import { HEADERS } from './shared-parts.js';
import { REFUSALS } from './refusals.js';

const RETRY = {
  'Retry-After': {
    description: 'When to try again, in seconds from now.',
    schema: { type: 'integer', minimum: 0 },
  },
};
const AWAY =
  '`INTERNAL_ERROR`: the ledger cannot be reached or is full. Retry with the same idempotency key; `details.reason` says what is wrong.';

interface Operation {
  readonly operationId?: string | undefined;
  readonly requestBody?: unknown;
  readonly tags?: readonly string[] | undefined;
  readonly security?: readonly Readonly<Record<string, unknown>>[] | undefined;
}

/** The tags of the runtime plane, whose protocol has another code for a missing permission. */
const RUNTIME = new Set(['Reservations', 'Balances']);

/** The codes that an operation can be refused with, except for an outage of the store. */
export function codesOf({ operationId = '', tags = [], security = [] }: Operation): readonly ErrorCode[] {
  const isRuntime = tags.some((tag) => RUNTIME.has(tag));
  return [
    'INVALID_REQUEST',
    ...(security.length === 0 ? [] : (['UNAUTHORIZED'] as const)),
    ...(security.length === 0 ? [] : ([isRuntime ? 'FORBIDDEN' : 'INSUFFICIENT_PERMISSIONS'] as const)),
    ...(!isRuntime && security.some((scheme) => 'ApiKeyAuth' in scheme) ? (['FORBIDDEN'] as const) : []),
    ...(REFUSALS[operationId] ?? []),
    'LIMIT_EXCEEDED',
    'INTERNAL_ERROR',
  ];
}

/** The responses of those codes, by status. What many operations have is a component. */
export function refusalResponses(operation: Operation): Record<string, object> {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of new Set(codesOf(operation))) {
    const { status } = ERROR_CATALOGUE[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const own = [...byStatus].map(([status, codes]): [string, object] => [
    String(status),
    codes.length === 1 ? { $ref: `#/components/responses/${codes[0]}` } : refusal(codes),
  ]);
  return {
    ...Object.fromEntries(own),
    ...(operation.requestBody === undefined
      ? {}
      : {
          413: { $ref: '#/components/responses/TOO_LARGE' },
          415: { $ref: '#/components/responses/NOT_JSON' },
        }),
    503: { $ref: '#/components/responses/UNAVAILABLE' },
  };
}

/** The components: one of each code, what is wrong with a body as such, and the outage of the store. */
export function refusalComponents(): Record<string, object> {
  const codes = Object.keys(ERROR_CATALOGUE) as ErrorCode[];
  return {
    ...Object.fromEntries(codes.map((code) => [code, refusal([code])])),
    TOO_LARGE: response(
      '`INVALID_REQUEST`: the body is too large.',
      'INVALID_REQUEST',
      'the body is too large',
      {},
    ),
    NOT_JSON: response(
      '`INVALID_REQUEST`: the body is not JSON.',
      'INVALID_REQUEST',
      'the body must be JSON',
      {},
    ),
    UNAVAILABLE: response(AWAY, 'INTERNAL_ERROR', 'Redis cannot be reached', RETRY),
  };
}

function refusal(codes: readonly ErrorCode[]): object {
  const [first = 'INTERNAL_ERROR'] = codes;
  const says = codes.map((code) => `\`${code}\`: ${ERROR_CATALOGUE[code].message}.`).join(' ');
  const { message } = ERROR_CATALOGUE[first];
  return response(says, first, message, first === 'LIMIT_EXCEEDED' ? RETRY : {});
}

function response(description: string, error: ErrorCode, message: string, headers: object): object {
  const example = {
    error,
    message,
    request_id: 'req_0123456789abcdef01234567',
    trace_id: '0af7651916cd43dd8448eb211c80319c',
  };
  return {
    description,
    headers: { ...HEADERS, ...headers },
    content: { 'application/json': { schema: { $ref: '#/components/schemas/ErrorResponse' }, example } },
  };
}
