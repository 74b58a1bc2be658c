import { APICallError } from '@ai-sdk/provider';

/**
 * `denied`: the budget does not cover the call, or a limit of Holdfast refuses it. `unavailable`: Holdfast gave no answer. `misconfigured`:
 * it cannot decide, for example because the key is wrong, there is no budget, or the model has no price.
 */
export type BudgetErrorReason = 'denied' | 'unavailable' | 'misconfigured';

const MARKER = Symbol.for('holdfast.budget-error');

interface BudgetErrorParts {
  readonly reason: BudgetErrorReason;
  /** Holdfast's error code, such as BUDGET_EXCEEDED. */
  readonly code: string;
  readonly message: string;
  readonly url: string;
  readonly statusCode: number;
  readonly isRetryable: boolean;
  readonly scope?: string | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly body?: unknown;
  readonly cause?: unknown;
}

/**
 * Why a call was not made, or, as a problem that is reported, what could not be charged. An APICallError, so that code that knows those
 * shows it, and retries exactly what is worth it: a denial has status 402 and is not retried.
 */
export class BudgetError extends APICallError {
  readonly [MARKER] = true;
  readonly reason: BudgetErrorReason;
  readonly code: string;
  /** The budget that denied. */
  readonly scope: string | undefined;
  /** When funds may be there again, if Holdfast can tell. */
  readonly retryAfterMs: number | undefined;

  constructor({ reason, code, scope, retryAfterMs, body, ...parts }: BudgetErrorParts) {
    super({
      ...parts,
      requestBodyValues: {},
      data: body,
      ...(body === undefined ? {} : { responseBody: JSON.stringify(body) }),
      ...(retryAfterMs === undefined ? {} : { responseHeaders: { 'retry-after-ms': String(retryAfterMs) } }),
    });
    this.reason = reason;
    this.code = code;
    this.scope = scope;
    this.retryAfterMs = retryAfterMs;
  }

  static override isInstance(error: unknown): error is BudgetError {
    return typeof error === 'object' && error !== null && MARKER in error;
  }
}

/** Codes of what happens on the way to a provider before it has read anything. */
const NEVER_SENT = [
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ERR_INVALID_URL',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'CERT_HAS_EXPIRED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UND_ERR_CONNECT_TIMEOUT',
];
/** Errors of the SDK and of providers about a request that they cannot make. */
const NEVER_MADE = [
  'AI_InvalidArgumentError',
  'AI_InvalidPromptError',
  'AI_LoadAPIKeyError',
  'AI_LoadSettingError',
  'AI_NoSuchModelError',
  'AI_NoSuchProviderReferenceError',
  'AI_TooManyEmbeddingValuesForCallError',
  'AI_UnsupportedFunctionalityError',
];
/** A gateway has given up waiting; the provider behind it may go on, and bill. */
const GAVE_UP = [408, 499, 504, 524];

/** Whether a failed call certainly cost nothing: it never reached the provider, or the provider refused it. */
export function costNothing(error: unknown): boolean {
  if (APICallError.isInstance(error) && error.statusCode !== undefined) {
    return error.statusCode >= 400 && !GAVE_UP.includes(error.statusCode);
  }
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (NEVER_MADE.includes(cause.name) || ('code' in cause && NEVER_SENT.includes(String(cause.code)))) {
      return true;
    }
  }
  return false;
}
