import type { Dispatcher } from 'undici';
import { LOOKUPS_BUSY } from '../target-policy/host-lookups.js';
import { TARGET_BLOCKED } from '../target-policy/target-policy.js';

/** The longest pause that an endpoint is granted: as long as a retry policy's own `max_delay_ms` may be. */
export const RETRY_AFTER_MAX_MS = 3_600_000;

export type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>;

const SECONDS = /^\d{1,10}$/;
/** The fixed form of HTTP's dates; the two obsolete ones are not sent by anything of this century. */
const HTTP_DATE =
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/**
 * How long an endpoint asks to be left alone, in ms, from its `Retry-After` (RFC 9110, 10.2.3): seconds, or a date, which counts from
 * the answer's own `Date`, so that the clocks need not agree. Undefined when there is no such header or it cannot be read; never
 * negative and never more than an hour.
 */
export function retryAfterMs(headers: AnswerHeaders): number | undefined {
  const text = textOf(headers['retry-after']);
  const delayMs = SECONDS.test(text)
    ? Number(text) * 1000
    : dateMs(text) - (dateMs(textOf(headers['date'])) || new Date().getTime());
  return Number.isNaN(delayMs) ? undefined : Math.min(Math.max(delayMs, 0), RETRY_AFTER_MAX_MS);
}

function textOf(header: string | string[] | undefined): string {
  return (Array.isArray(header) ? header[0] : header)?.trim() ?? '';
}

/** NaN when it is no date. */
function dateMs(text: string): number {
  return HTTP_DATE.test(text) ? Date.parse(text) : NaN;
}

/** An answer's body says nothing that matters, so this much of it is read to keep the connection, and no more. */
export const ANSWER_MAX_BYTES = 64 * 1024;
/** Once the status is known, the end of the body is waited for only so long. */
const ANSWER_END_MS = 1000;
const ERROR_MAX_LENGTH = 512;

/** `lookups_busy` says nothing about the endpoint: nothing was begun. */
export type FailureReason =
  'http_3xx' | 'http_4xx' | 'http_5xx' | 'transport_error' | 'target_blocked' | 'lookups_busy';

export interface AttemptOutcome {
  /** A status of 200 to 299. */
  readonly ok: boolean;
  readonly status?: number;
  /** Until the status was there, or until the failure. */
  readonly durationMs: number;
  /** Why it failed, in words; nothing of the answer's body is ever in it. */
  readonly error?: string;
  readonly reason?: FailureReason;
  /** What a refusing endpoint asked for; at most an hour. */
  readonly retryAfterMs?: number;
}

/**
 * One POST on its way. undici calls the `on...` methods. The outcome is told exactly once, at the latest when the time is up,
 * whatever the connection does: undici itself can abort a request only once it is connected.
 */
export class Attempt implements Dispatcher.DispatchHandler {
  private readonly startedAt = performance.now();
  private timer: NodeJS.Timeout;
  private controller: Dispatcher.DispatchController | undefined;
  private answer: AttemptOutcome | undefined;
  private bytes = 0;
  private over = false;

  constructor(
    private readonly timeoutMs: number,
    private readonly settle: (outcome: AttemptOutcome) => void,
  ) {
    this.timer = setTimeout(() => this.cutOff(), timeoutMs);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller;
    if (this.over) {
      // The connection came up after the time was over: nothing is sent any more.
      controller.abort(new Error('the time for this attempt is over'));
    }
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: AnswerHeaders): void {
    if (status < 200 || this.over) {
      return;
    }
    const durationMs = this.elapsedMs();
    this.answer = status < 300 ? { ok: true, status, durationMs } : refusedBy(status, durationMs, headers);
    clearTimeout(this.timer);
    this.timer = setTimeout(
      () => this.cutOff(),
      Math.min(ANSWER_END_MS, Math.max(this.timeoutMs - durationMs, 0)),
    );
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.bytes += chunk.length;
    if (this.bytes > ANSWER_MAX_BYTES) {
      this.cutOff();
    }
  }

  onResponseEnd(): void {
    this.finish(this.answer ?? this.failure('the endpoint gave no answer'));
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    this.finish(this.answer ?? this.failure(wordsOf(error), reasonOf(error)));
  }

  /** Ends the attempt with what is known; the connection is of no use to anybody after that. */
  private cutOff(): void {
    this.finish(this.answer ?? this.failure(`no answer within ${this.timeoutMs} ms`));
    this.controller?.abort(new Error('this attempt is over'));
  }

  private finish(outcome: AttemptOutcome): void {
    if (this.over) {
      return;
    }
    this.over = true;
    clearTimeout(this.timer);
    this.settle(outcome);
  }

  private failure(error: string, reason: FailureReason = 'transport_error'): AttemptOutcome {
    return { ok: false, durationMs: this.elapsedMs(), error: error.slice(0, ERROR_MAX_LENGTH), reason };
  }

  private elapsedMs(): number {
    return Math.round(performance.now() - this.startedAt);
  }
}

function refusedBy(status: number, durationMs: number, headers: AnswerHeaders): AttemptOutcome {
  const reason = status < 400 ? 'http_3xx' : status < 500 ? 'http_4xx' : 'http_5xx';
  const error =
    status < 400
      ? `the endpoint answered ${status}; redirects are not followed`
      : `the endpoint answered ${status}`;
  const pauseMs = retryAfterMs(headers);
  return {
    ok: false,
    status,
    durationMs,
    error,
    reason,
    ...(pauseMs === undefined ? {} : { retryAfterMs: pauseMs }),
  };
}

/** Several addresses tried in vain make one error, which has no words of its own. */
function causesOf(error: Error): readonly Error[] {
  return error instanceof AggregateError ? (error.errors as readonly Error[]) : [error];
}

function reasonOf(error: Error): FailureReason {
  const codes = causesOf(error).map((cause) => (cause as NodeJS.ErrnoException).code);
  return codes.includes(TARGET_BLOCKED)
    ? 'target_blocked'
    : codes.includes(LOOKUPS_BUSY)
      ? 'lookups_busy'
      : 'transport_error';
}

function wordsOf(error: Error): string {
  return causesOf(error)
    .map(({ message }) => message)
    .join('; ');
}
